"""A job in a folder store and real agents that run it, without any client."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from gpujob import bundle, processes
from gpujob.checkpoints import head
from gpujob.core.layout import HostPaths, JobKeys
from gpujob.core.plan import make_plan
from gpujob.core.records import ExitReport, Head, Heartbeat, Launch
from gpujob.core.spec import JobSpec
from gpujob.store.local import LocalStore
from support.desk import kill, until

JOB = "rig-abc234"
BEAT = 0.1

LIBRARY = """
import json, os, signal, sys, time
from pathlib import Path
ENV = os.environ
CHECKPOINTS, OUTPUT = Path(ENV["GPUJOB_CHECKPOINT_DIR"]), Path(ENV["GPUJOB_OUTPUT_DIR"])
def step(number, **more):
    with open(ENV["GPUJOB_METRICS"], "a") as file:
        file.write(json.dumps({"step": number, "loss": 1 / max(number, 1), **more}) + "\\n")
def save(number, content=None, size=100):
    folder = CHECKPOINTS / f"checkpoint-{number}"
    folder.mkdir()
    (folder / "state").write_bytes((content or str(number)).encode().ljust(size))
    (folder / "COMPLETE").touch()
def resumed():
    folder = ENV["GPUJOB_RESUME_FROM"]
    return int(folder.rpartition("-")[2]) if folder else 0
def touch(name):
    (Path(ENV["SIGNALS"]) / name).touch()
def wait_for(name):
    while not (Path(ENV["SIGNALS"]) / name).exists():
        time.sleep(0.005)
"""
"""What the test programs begin with: the contract in a dozen lines, and a way to talk to the test."""


class Rig:
    """One job; `program` is Python, run as `run: python job.py`. Talk to it with `tell` and `heard`."""

    def __init__(self, folder: Path, program: str, **spec: Any) -> None:
        self.folder, self.signals = folder, folder / "signals"
        self.signals.mkdir(parents=True)
        self.store = LocalStore(folder / "store")
        self.host = HostPaths(folder / "host")
        self.keys = JobKeys(JOB)
        code = folder / "code"
        code.mkdir()
        (code / "job.py").write_text(LIBRARY + program)
        env = {"SIGNALS": str(self.signals), **spec.pop("env", {})}
        fields = {"name": "rig", "run": f"exec {sys.executable} job.py", "env": env, **spec}
        self.plan = make_plan(
            JobSpec.model_validate(fields), job_id=JOB, folder=code, default_store=str(folder / "store"), now=0
        )
        head.create(self.store, JOB)
        self.store.put(self.keys.plan, self.plan.encode())
        self.started: list[subprocess.Popen[bytes]] = []

    def ship(self, **parts: Path) -> None:
        """Send the code, and whatever else travels."""
        bundle.ship(self.store, JOB, bundle.pack({"code": self.folder / "code", **parts}))

    def start(
        self,
        attempt: int = 1,
        *,
        module: str = "gpujob.agent",
        environ: Mapping[str, str] | None = None,
        **launch: Any,
    ) -> subprocess.Popen[bytes]:
        """Start an agent, as a runtime does."""
        record = Launch(
            job_id=JOB,
            attempt=attempt,
            store=self.store.url,
            root=str(self.host.root),
            **{"beat_seconds": BEAT, **launch},
        )
        environ = {
            **(environ or {}),
            **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "NOT_TO_BE_SEEN": "by the program",
            processes.ID_COOKIE: JOB,
            processes.ATTEMPT_COOKIE: str(attempt),
        }
        process = processes.detach(
            [sys.executable, "-m", module],
            environ,
            self.folder,
            self.host.attempt(attempt).agent_log,
            record.encode(),
        )
        self.started.append(process)
        return process

    def run(self, attempt: int = 1, **launch: Any) -> ExitReport:
        """Run an attempt to its end; it must leave a report and nothing running."""
        self.finish(self.start(attempt, **launch), attempt)
        return self.report(attempt)

    def finish(self, agent: subprocess.Popen[bytes], attempt: int = 1, code: int = 0) -> None:
        """Wait for an agent's end; afterwards no process of its attempt may be left."""
        until(lambda: agent.poll() is not None, "the agent's end", 60)
        assert agent.returncode == code, self.agent_log(attempt)
        assert processes.of_job(JOB, attempt) == []

    def tell(self, name: str) -> None:
        (self.signals / name).touch()

    def heard(self, name: str, agent: subprocess.Popen[bytes] | None = None) -> None:
        """Wait for the program's word."""
        until(lambda: (self.signals / name).exists() or (agent and agent.poll() is not None), f"`{name}`", 30)
        assert (self.signals / name).exists(), self.agent_log(1)

    def head(self) -> Head:
        return head.read(self.store, JOB)

    def durable(self) -> list[int]:
        return [ref.step for ref in self.head().checkpoints]

    def report(self, attempt: int = 1) -> ExitReport:
        report = ExitReport.decode(self.store.get(self.keys.attempt(attempt).exit))
        print(report)  # shown when the test fails
        return report

    def beat(self, attempt: int = 1) -> Heartbeat:
        return Heartbeat.decode(self.store.get(self.keys.attempt(attempt).beat))

    def stream(self, name: str, attempt: int = 1) -> bytes:
        """Put a stream together as a reader does."""
        infos = self.store.list(self.keys.attempt(attempt).segments(name))
        return b"".join(self.store.get(info.key) for info in infos)

    def agent_log(self, attempt: int = 1) -> str:
        return self.host.attempt(attempt).agent_log.read_text()

    def processes(self) -> list[psutil.Process]:
        """List what runs of the job, agents included."""
        return processes.of_job(JOB, 9999)

    def everything(self) -> bytes:
        """Give every byte the job has put anywhere but into its own program's folders."""
        places = [self.folder / "store", self.host.attempts]
        return b"\n".join(path.read_bytes() for place in places for path in place.rglob("*") if path.is_file())

    def close(self) -> None:
        for agent in self.started:
            if agent.poll() is None:
                agent.send_signal(signal.SIGKILL)
        for process in self.processes():
            kill(process)


MakeRig = Callable[..., Rig]


@pytest.fixture
def make_rig(tmp_path: Path) -> Iterator[MakeRig]:
    """Make rigs with their code shipped; all they started is gone afterwards."""
    made: list[Rig] = []

    def make(program: str, **spec: Any) -> Rig:
        made.append(Rig(tmp_path / f"rig-{len(made)}", program, **spec))
        made[-1].ship()
        return made[-1]

    yield make
    for each in made:
        each.close()
