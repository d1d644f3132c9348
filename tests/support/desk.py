"""A person's desk in a test: a home of its own, the real command line, and a look at what really runs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from gpujob.checkpoints import head as heads
from gpujob.client.watch import read_beat
from gpujob.core.layout import HomePaths
from gpujob.core.records import Head, Heartbeat
from gpujob.store.open import open_store

_POLL = 0.002


class Desk:
    """Run `gpujob` with a home below `folder`. Its jobs' store is the home's own folder, unless `url` says another."""

    def __init__(
        self, folder: Path, *, poll: float = 0.1, beat: float = 0.2, url: str | None = None, **environ: str
    ) -> None:
        self.home = HomePaths(folder / "home")
        self.store = self.home.store
        self.objects = open_store(url or str(self.store), environ)
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "GPUJOB_HOME": str(self.home.root),
            "GPUJOB_POLL_SECONDS": str(poll),
            "GPUJOB_BEAT_SECONDS": str(beat),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            **environ,
        }

    def gpujob(self, *words: str, code: int = 0, cwd: Path | None = None) -> str:
        """Run a verb; its exit code must be `code`. Gives what it printed on standard output."""
        argv = [sys.executable, "-m", "gpujob.cli.main", *words]
        done = subprocess.run(argv, env=self.environ, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == code, f"{words} exited {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def submit(self, spec: Path, *words: str) -> str:
        """Submit a job in the background; give its id."""
        return str(json.loads(self.gpujob("submit", str(spec), "--detach", "--json", *words))["id"])

    def status(self, job_id: str) -> dict[str, Any]:
        """Give `status --json`."""
        return dict(json.loads(self.gpujob("status", job_id, "--json")))

    def wait(self, job_id: str, code: int = 0) -> dict[str, Any]:
        """Wait for the job's end, which must have this exit code; give its status."""
        self.gpujob("wait", job_id, code=code)
        return self.status(job_id)

    def head(self, job_id: str) -> Head:
        """Read the head straight from the store."""
        return heads.read(self.objects, job_id)

    def beat(self, job_id: str) -> Heartbeat | None:
        """Read the newest attempt's heartbeat straight from the store."""
        return read_beat(self.objects, job_id, self.head(job_id).attempt)

    def processes(self, job_id: str) -> list[psutil.Process]:
        """List every living process that carries the job's cookie, but for its supervisor."""
        return [process for process in psutil.process_iter() if _environ(process).get("GPUJOB_ID") == job_id]

    def agents(self, job_id: str) -> list[psutil.Process]:
        """List the agents of a job."""
        return [process for process in self.processes(job_id) if "gpujob.agent" in _words(process)]

    def children(self, job_id: str) -> list[psutil.Process]:
        """List what the agents started."""
        return [process for process in self.processes(job_id) if "gpujob.agent" not in _words(process)]

    def supervisors(self) -> list[psutil.Process]:
        """List the supervisors of this home."""
        mine = str(self.home.root)
        everybody = (each for each in psutil.process_iter() if "gpujob.client.supervisor" in _words(each))
        return [process for process in everybody if _environ(process).get("GPUJOB_HOME") == mine]

    def lose_rental(self, job_id: str) -> None:
        """Do what the end of a rental does: nothing of the job runs any more, and its disk is gone."""
        rental = self.home.rental(job_id)
        gone = rental.rename(rental.with_name(f"gone-{job_id}"))  # all at once, before anybody can look
        for process in self.processes(job_id):
            kill(process)
        shutil.rmtree(gone)

    def close(self) -> None:
        """Stop everything this desk started."""
        for process in self.supervisors():
            kill(process)
        for path in self.home.journal.glob("*.json") if self.home.journal.is_dir() else ():
            for process in self.processes(path.stem):
                kill(process)


def kill(process: psutil.Process) -> None:
    """SIGKILL one process, which may have ended by itself."""
    try:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    except psutil.NoSuchProcess:
        pass


def until(condition: Callable[[], Any], what: str, seconds: float = 120.0) -> Any:
    """Wait for a condition and give its value; fails naming `what` when it does not come."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(_POLL)
    raise AssertionError(f"waited {seconds} s in vain for {what}")


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _environ(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ() if process.status() != psutil.STATUS_ZOMBIE else {}
    except psutil.Error:
        return {}
