"""Processes of a job on this machine, found by the cookies in their environment and ended for certain."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from gpujob.core.errors import HostError

ID_COOKIE = "GPUJOB_ID"
ATTEMPT_COOKIE = "GPUJOB_ATTEMPT"

_KILL_SECONDS = 20.0
"""How long the kernel may take to end killed processes."""
_LOOK_SECONDS = 0.01


def of_job(job_id: str, last_attempt: int) -> list[psutil.Process]:
    """List the living processes of a job's attempts up to `last_attempt`, with what they started.

    The caller and its ancestors are left out. What has wiped its environment is still found through its parents.
    """
    found: dict[int, psutil.Process] = {}
    for pid in psutil.pids():
        with suppress(psutil.Error, OSError):
            process = psutil.Process(pid)
            if _belongs(process, job_id, last_attempt):
                found.update({each.pid: each for each in (process, *process.children(recursive=True))})
    for spared in (os.getpid(), *(parent.pid for parent in psutil.Process().parents())):
        found.pop(spared, None)
    return [process for process in found.values() if _lives(process)]


def kill_job(job_id: str, last_attempt: int) -> None:
    """Kill every process of a job's attempts up to `last_attempt`; raises HostError naming those that stay."""
    deadline = time.monotonic() + _KILL_SECONDS
    # Again until none is found: a process may have forked while its parent was being killed.
    while left := of_job(job_id, last_attempt):
        if time.monotonic() > deadline:
            pids = ", ".join(str(process.pid) for process in left)
            hint = "the machine may have to be restarted; until then they may hold its GPU"
            raise HostError("stop", f"processes {pids} of job {job_id}", "they do not end when killed", hint)
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        wait_for(left, deadline - time.monotonic())


def wait_for(processes: Sequence[psutil.Process], seconds: float) -> None:
    """Wait until all have ended, or the time is up. A zombie has: in many containers nobody ever reaps it."""
    deadline = time.monotonic() + seconds
    while any(map(_lives, processes)) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)


def detach(
    argv: Sequence[str], environ: Mapping[str, str], folder: Path, output: Path, words: bytes = b""
) -> subprocess.Popen[bytes]:
    """Start a process that outlives this one: its own session, `words` on standard input, the rest into `output`."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("ab") as log:
        process = subprocess.Popen(
            argv,
            env=dict(environ),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    # Whoever stays alive longer than the process must reap it, or it counts as alive for ever.
    threading.Thread(target=process.wait, daemon=True, name=f"reap-{process.pid}").start()
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(words)
    return process


def tail(path: Path, lines: int = 20) -> str:
    """Give the last lines of a text file; empty when there is none."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


def _belongs(process: psutil.Process, job_id: str, last_attempt: int) -> bool:
    environ = process.environ()
    attempt = environ.get(ATTEMPT_COOKIE, "")
    return environ.get(ID_COOKIE) == job_id and attempt.isdigit() and int(attempt) <= last_attempt


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
