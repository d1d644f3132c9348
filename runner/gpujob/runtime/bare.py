"""The agent as a plain process of this machine: for a machine of one's own, and where the rental is the container."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from gpujob import bundle, locks, processes
from gpujob.core.errors import HostError
from gpujob.core.layout import APP, AttemptPaths, HostPaths
from gpujob.core.records import Launch
from gpujob.runtime.environ import machine_environ
from gpujob.runtime.protocol import Cargo
from gpujob.store.protocol import Progress, Store

_START_SECONDS = 60.0
"""How long an agent may take until it holds its lock."""
_LOOK_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Bare:
    """Run agents on this machine. `environ` is what the machine's programs see (filtered again before it is used).

    gpujob itself comes out of the `store`, unless `pythonpath` says where it lies on this machine.
    """

    store: Store | None
    environ: Mapping[str, str]
    python: str = sys.executable
    pythonpath: str | None = None

    def ship(self, cargo: Cargo, progress: Progress | None = None) -> None:
        """Do nothing: the store has it all, and is as near."""

    def start(self, launch: Launch) -> None:
        """Start an attempt's agent, after everything of the job's earlier attempts has been ended."""
        host = HostPaths(Path(launch.root))
        paths = host.attempt(launch.attempt)
        if paths.pid.exists():
            return
        processes.kill_job(launch.job_id, launch.attempt)
        # An agent that a killed client had just started may have taken its lock before it was ended. It may have the
        # lease as well, and no second agent of its attempt could ever get that.
        if paths.pid.exists():
            return
        try:
            if self.store is not None:
                bundle.fetch(self.store, bundle.read(self.store, launch.job_id).parts[APP], host.part(APP))
            paths.root.mkdir(parents=True, exist_ok=True)
            argv = (self.python, "-m", "gpujob.agent")
            process = processes.detach(argv, self._environ(launch), host.root, paths.agent_log, launch.encode())
        except OSError as error:
            raise HostError("start", "the agent", error.strerror or str(error), f"look at {host.root}") from error
        _wait(process, paths, launch)

    def alive(self, root: str, attempt: int) -> bool:
        """Say whether the agent holds its lock."""
        return locks.is_held(HostPaths(Path(root)).attempt(attempt).pid)

    def last_words(self, root: str, attempt: int) -> str:
        """Give the last line of the agent's log."""
        return processes.tail(HostPaths(Path(root)).attempt(attempt).agent_log, lines=1)

    def stop(self, job_id: str, root: str, last_attempt: int, grace: float) -> None:
        """SIGTERM for the agent; after `grace` SIGKILL for everything that is left."""
        agent = _agent(HostPaths(Path(root)).attempt(last_attempt)) if grace > 0 else None
        if agent is not None:
            with suppress(psutil.Error):
                agent.send_signal(signal.SIGTERM)
            processes.wait_for([agent], grace)
        processes.kill_job(job_id, last_attempt)

    def _environ(self, launch: Launch) -> dict[str, str]:
        return {
            **machine_environ(self.environ),
            "PYTHONPATH": self.pythonpath or str(HostPaths(Path(launch.root)).part(APP)),
            "PYTHONUNBUFFERED": "1",
            processes.ID_COOKIE: launch.job_id,
            processes.ATTEMPT_COOKIE: str(launch.attempt),
        }


def _wait(process: subprocess.Popen[bytes], paths: AttemptPaths, launch: Launch) -> None:
    """Wait until the agent has noted its pid, which it does after taking its lock."""
    deadline = time.monotonic() + _START_SECONDS
    while not _noted(paths):
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(_LOOK_SECONDS)
            if not _noted(paths):
                said = processes.tail(paths.agent_log) or "it said nothing"
                raise HostError("start", "the agent", f"it exited with code {code} at once:\n{said}")
        if time.monotonic() > deadline:
            processes.kill_job(launch.job_id, launch.attempt)
            raise HostError(
                "start", "the agent", f"it did nothing for {_START_SECONDS:.0f} s", f"see {paths.agent_log}"
            )


def _noted(paths: AttemptPaths) -> bool:
    return paths.pid.exists() and paths.pid.stat().st_size > 0


def _agent(paths: AttemptPaths) -> psutil.Process | None:
    """Give the process that holds the attempt's lock."""
    if not locks.is_held(paths.pid):
        return None
    try:
        return psutil.Process(int(json.loads(paths.pid.read_text())["pid"]))
    except (ValueError, KeyError, TypeError, OSError, psutil.Error):
        return None
