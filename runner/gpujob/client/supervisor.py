"""One process per home that drives all active jobs. It may be killed at any time: the next one reads the journal.

It starts on demand and ends when nothing is active. The gate makes that safe: whoever submits writes the job first and
then, holding the gate, looks whether a supervisor runs; a supervisor ends only while it holds the gate and sees no
active job. So either the one sees the job or the other sees that nobody runs.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

from gpujob import locks, processes
from gpujob.client.drive import Drive, OpenTools
from gpujob.client.journal import Journal
from gpujob.client.settings import Settings
from gpujob.client.tools import Clock, open_tools
from gpujob.core.errors import Damaged, HostError, NotFoundJob
from gpujob.runtime.environ import machine_environ

log = logging.getLogger("gpujob.supervisor")

_START_SECONDS = 60.0
_LOOK_SECONDS = 0.01
_END_SECONDS = 5.0


def wake(settings: Settings, clock: Clock = time.time) -> None:
    """Do what any look at the jobs should: clear up after killed submits, and see that active jobs are driven."""
    journal = Journal(settings.home)
    journal.abandon_dead_submits(clock())
    if any(entry.job.active for entry in journal.all()[0]):
        ensure_running(settings)


def ensure_running(settings: Settings) -> None:
    """Start the supervisor unless one runs; returns when one does. Raises HostError when it cannot start."""
    home = settings.home
    with locks.locked(home.supervisor_gate):
        if locks.is_held(home.supervisor_lock):
            return
        environ = {**machine_environ(settings.environ), **_python_path(settings), **settings.exported()}
        argv = (sys.executable, "-m", "gpujob.client.supervisor")
        process = processes.detach(argv, environ, home.root, home.supervisor_log)
        deadline = time.monotonic() + _START_SECONDS
        while not locks.is_held(home.supervisor_lock):
            with suppress(subprocess.TimeoutExpired):
                if process.wait(_LOOK_SECONDS) == 0:
                    return  # somebody else's was faster
                said = processes.tail(home.supervisor_log) or "it said nothing"
                raise HostError("start", "the supervisor", said, f"see {home.supervisor_log}")
            if time.monotonic() > deadline:
                raise HostError("start", "the supervisor", f"nothing happened for {_START_SECONDS:.0f} s")


def _python_path(settings: Settings) -> dict[str, str]:
    path = settings.environ.get("PYTHONPATH")
    return {"PYTHONPATH": path} if path else {}


@dataclass(slots=True)
class Supervisor:
    """Drives every active job in a thread of its own; one that fails takes no other with it."""

    settings: Settings
    clock: Clock = time.time
    open_tools: OpenTools = open_tools
    _end: threading.Event = field(default_factory=threading.Event, init=False)
    _threads: dict[str, threading.Thread] = field(default_factory=dict, init=False)
    _idle: dict[str, tuple[int, int]] = field(default_factory=dict, init=False)

    @property
    def journal(self) -> Journal:
        """The jobs of the home."""
        return Journal(self.settings.home)

    def run(self) -> bool:
        """Drive until nothing is active or `end` was called; False when another supervisor runs already."""
        lock = locks.take(self.settings.home.supervisor_lock)
        if lock is None:
            return False
        try:
            os.truncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
            self.journal.sweep(self.clock())
            while not self._end.is_set():
                self._start_threads()
                if not self._threads:
                    with locks.locked(self.settings.home.supervisor_gate):
                        if not self._active():
                            os.close(lock)
                            lock = None
                            return True
                self._end.wait(self.settings.poll_seconds)
            for thread in self._threads.values():
                thread.join(_END_SECONDS)
        finally:
            if lock is not None:
                os.close(lock)
        return True

    def end(self) -> None:
        """Ask it to end soon; the jobs go on without it."""
        self._end.set()

    def _start_threads(self) -> None:
        self._threads = {job_id: thread for job_id, thread in self._threads.items() if thread.is_alive()}
        for job_id in self._active():
            if job_id not in self._threads:
                thread = threading.Thread(target=self._drive, args=(job_id,), name=job_id, daemon=True)
                self._threads[job_id] = thread
                thread.start()

    def _active(self) -> list[str]:
        """List the active jobs; an entry that was idle is read again only when it changed."""
        self.journal.abandon_dead_submits(self.clock())
        active = []
        for job_id in self.journal.ids():
            signature = self.journal.signature(job_id)
            if self._idle.get(job_id) == signature:
                continue
            try:
                if self.journal.read(job_id).job.active:
                    active.append(job_id)
                    continue
            except (Damaged, NotFoundJob) as error:
                log.error("%s", error)
            self._idle[job_id] = signature
        return active

    def _drive(self, job_id: str) -> None:
        drive = Drive(job_id, self.journal, self.settings, self.clock, self._end.wait, self.open_tools)
        try:
            drive.run()
        except Exception:
            log.exception("job %s: its driver failed and is started again", job_id)
            self._end.wait(_END_SECONDS)


def main() -> None:
    """Run the supervisor of $GPUJOB_HOME."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    supervisor = Supervisor(Settings.read(os.environ))
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: supervisor.end())
    supervisor.run()


if __name__ == "__main__":
    main()
