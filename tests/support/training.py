"""Run the built-in trainer many times without loading torch many times: a process that forks itself into trainers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpujob.core.layout import COMPLETE
from gpujob.core.records import TrainTask

_TESTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Attempt:
    """One attempt's folders."""

    root: Path

    def environ(self, task: TrainTask, resume: Path | None, attempt: int) -> dict[str, str]:
        """Lay out the folders and give the contract's variables."""
        for folder in (self.root, self.checkpoints):
            folder.mkdir(parents=True, exist_ok=True)
        (self.root / "train.json").write_bytes(task.encode())
        return {
            "GPUJOB_TRAIN": str(self.root / "train.json"),
            "GPUJOB_CHECKPOINT_DIR": str(self.checkpoints),
            "GPUJOB_OUTPUT_DIR": str(self.output),
            "GPUJOB_METRICS": str(self.root / "metrics.jsonl"),
            "GPUJOB_VERDICT": str(self.root / "verdict.json"),
            "GPUJOB_RESUME_FROM": str(resume or ""),
            "GPUJOB_ATTEMPT": str(attempt),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        }

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def output(self) -> Path:
        return self.root / "output"

    @property
    def newest(self) -> Path | None:
        """The newest checkpoint that is whole, as an agent would choose it."""
        whole = [path for path in self.checkpoints.iterdir() if (path / COMPLETE).exists()]
        return max(whole, key=lambda path: int(path.name.split("-")[1]), default=None)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The whole lines of the metrics file."""
        path = self.root / "metrics.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    @property
    def step(self) -> int:
        return max((line["step"] for line in self.lines if "loss" in line), default=0)

    @property
    def verdict(self) -> dict[str, Any]:
        path = self.root / "verdict.json"
        return dict(json.loads(path.read_text())) if path.exists() else {}

    @property
    def log(self) -> str:
        return (self.root / "log").read_text()


class Nursery:
    """Fork trainers, one at a time."""

    def __init__(self) -> None:
        path = os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")])
        environ = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        argv = [sys.executable, "-m", "support.training"]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ, text=True
        )

    def start(self, attempt: Attempt, task: TrainTask, *, resume: Path | None = None, number: int = 1) -> int:
        """Start a trainer; give its process id."""
        return self._ask({"environ": attempt.environ(task, resume, number), "log": str(attempt.root / "log")})

    def wait(self) -> int:
        """Wait for the trainer's end; give its exit code, negative for a signal."""
        return self._ask({})

    def run(self, attempt: Attempt, task: TrainTask, *, resume: Path | None = None, number: int = 1) -> int:
        """Start a trainer and wait for its end."""
        self.start(attempt, task, resume=resume, number=number)
        return self.wait()

    def close(self) -> None:
        """End the nursery; a trainer that still runs is not waited for."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def _ask(self, request: Mapping[str, Any]) -> int:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """The one nursery of a test run."""
    nursery = Nursery()
    yield nursery
    nursery.close()


def _serve() -> None:
    import gpujob.trainer.run  # noqa: F401 - what the forks are to find loaded

    answers = os.fdopen(os.dup(1), "w")
    pid = 0
    for line in sys.stdin:
        request = json.loads(line)
        if not request:
            answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        elif not (pid := os.fork()):
            _train(request)
        else:
            answer = pid
        answers.write(f"{answer}\n")
        answers.flush()


def _train(request: Mapping[str, Any]) -> None:
    from gpujob.trainer.__main__ import main

    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(request["environ"])
    code = 1
    try:
        code = main()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
