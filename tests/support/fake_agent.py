"""An agent that obeys the launch contract through the real store and trains nothing.

The job's command is its script: one word per attempt, the last one for all further ones.

    done    beats, makes a step durable, and ends well
    crash   ends with a report
    die     kills itself without one
    hang    beats until the head says cancel, then reports
    deaf    beats, and listens to nobody; so does a child of its own session
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from gpujob.checkpoints import lease
from gpujob.checkpoints.lease import Held
from gpujob.core.errors import Fenced
from gpujob.core.layout import HostPaths, JobKeys
from gpujob.core.plan import Plan
from gpujob.core.reasons import Reason
from gpujob.core.records import Event, ExitReport, Heartbeat, Intent, Launch, Phase
from gpujob.store.open import open_store


def main() -> None:
    launch = Launch.decode(sys.stdin.buffer.read())
    paths = HostPaths(Path(launch.root)).attempt(launch.attempt)
    lock = os.open(paths.pid, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    os.write(lock, json.dumps({"pid": os.getpid(), "started": time.time()}).encode())
    store = open_store(launch.store, launch.store_env)
    keys = JobKeys(launch.job_id)
    words = (Plan.decode(store.get(keys.plan)).command or "done").split()
    word = words[min(launch.attempt, len(words)) - 1]
    held = lease.acquire(store, launch.job_id, launch.attempt, f"fake-{os.getpid()}", time.time())
    store.put(
        keys.attempt(launch.attempt).segment("log", 0), f"attempt {launch.attempt}: {word}\n".encode(), if_absent=True
    )
    told = Event(at=time.time(), attempt=launch.attempt, kind="fake", text=word)
    store.put(keys.attempt(launch.attempt).segment("events", 0), told.model_dump_json().encode() + b"\n")
    _act(word, held, launch.beat_seconds)


def _act(word: str, held: Held, every: float) -> None:
    began = time.time()
    beat(held, began, step=held.attempt, durable=held.attempt - 1)
    if word == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "done":
        beat(held, began, step=held.attempt + 1, durable=held.attempt + 1)
        end(held, began, Reason.DONE, held.attempt + 1)
    elif word == "crash":
        end(held, began, Reason.CRASHED, held.attempt)
    elif word == "hang":
        wait_for_cancel(held, began, every)
    else:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, start_new_session=True)
        while True:
            beat(held, began, step=held.attempt, durable=0)
            time.sleep(every)


def wait_for_cancel(held: Held, began: float, every: float) -> None:
    try:
        while lease.check(held).intent is Intent.RUN:
            beat(held, began, step=held.attempt, durable=0)
            time.sleep(every)
    except Fenced:
        end(held, began, Reason.SUPERSEDED, 0)
    else:
        end(held, began, Reason.CANCELLED, 0)


def beat(held: Held, began: float, step: int, durable: int) -> None:
    now = time.time()
    record = Heartbeat(
        attempt=held.attempt,
        generation=held.generation,
        holder=held.holder,
        at=now,
        phase=Phase.TRAINING,
        elapsed=now - began,
        step=step,
        durable_step=durable,
    )
    held.store.put(JobKeys(held.job_id).attempt(held.attempt).beat, record.encode())


def end(held: Held, began: float, reason: Reason, durable: int) -> None:
    now = time.time()
    report = ExitReport(
        attempt=held.attempt,
        generation=held.generation,
        at=now,
        reason=reason,
        sentence=f"the fake agent ended with {reason}",
        durable_step=durable,
        elapsed=now - began,
    )
    held.store.put(JobKeys(held.job_id).attempt(held.attempt).exit, report.encode())
    if reason is not Reason.SUPERSEDED:
        lease.finish(held, report.elapsed, 0.0, Reason.DONE if reason is Reason.DONE else None)


if __name__ == "__main__":
    main()
