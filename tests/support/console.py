"""The command line in a test: a home with jobs in it, and verbs run in this process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpujob.cli import main
from gpujob.client.journal import Journal, JournalEntry
from gpujob.core.job import Job, State
from gpujob.core.layout import HomePaths, JobKeys
from gpujob.core.plan import make_plan
from gpujob.core.reasons import Reason
from gpujob.core.records import Event
from gpujob.core.spec import JobSpec
from gpujob.store.open import open_store
from gpujob.store.protocol import Store

NOW = 1_700_000_000.0


@dataclass(frozen=True)
class Ran:
    """What one command line did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The JSON lines on standard output."""
        return [json.loads(line) for line in self.out.splitlines()]


class Shell:
    """Runs verbs against a home below `folder`, whose store is a folder."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = HomePaths(folder / "home")
        self.environ = {"GPUJOB_HOME": str(self.home.root), "GPUJOB_POLL_SECONDS": "0.01", "TERM": "xterm-256color"}
        self.journal = Journal(self.home)
        self._capsys = capsys
        self._clock: tuple[Callable[[], float], Callable[[float], None]] = (time.time, time.sleep)

    def __call__(self, *words: str) -> Ran:
        code = main.run(words, self.environ, *self._clock)
        out, err = self._capsys.readouterr()
        return Ran(code, out, err)

    def at(self, now: Callable[[], float], sleep: Callable[[float], None] = lambda seconds: None) -> Shell:
        """Give the same shell with another clock."""
        other = copy(self)
        other._clock = (now, sleep)
        return other

    def printed(self) -> str:
        """Give what was printed since the last question."""
        return self._capsys.readouterr().out

    @property
    def store(self) -> Store:
        """The store of jobs that name none."""
        return open_store(str(self.home.store), {})

    def add(self, job_id: str, state: State, reason: Reason | None = None, **changes: Any) -> JournalEntry:
        """Enter a job into the journal: one that is over has nothing left to be done for it."""
        name = job_id.rsplit("-", 1)[0]
        spec = JobSpec(name=name, run="python train.py")
        store = changes.pop("store", str(self.home.store))
        plan = make_plan(spec, job_id=job_id, folder="/home/me", default_store=store, now=NOW + len(self.journal.ids()))
        job = Job(id=job_id, state=state, reason=reason, settled=reason is not None, **changes)
        entry = JournalEntry(plan=plan, job=job).noting(NOW, state.value, f"{job_id} is {state}.")
        self.journal.create(entry)
        return entry

    def finish(self, job_id: str, state: State, reason: Reason) -> None:
        """End a job."""
        over = {"state": state, "reason": reason, "settled": True}
        self.journal.update(job_id, lambda entry: entry.model_copy(update={"job": entry.job.model_copy(update=over)}))

    def log(self, job_id: str, attempt: int, *segments: bytes, stream: str = "log") -> None:
        """Write segments of an attempt's stream."""
        for number, data in enumerate(segments, start=1):
            self.store.put(JobKeys(job_id).attempt(attempt).segment(stream, number), data)

    def tell(self, job_id: str, attempt: int, text: str) -> None:
        """Write an event as an agent does."""
        event = Event(at=NOW + 1, attempt=attempt, kind="agent", text=text)
        self.log(job_id, attempt, event.model_dump_json().encode() + b"\n", stream="events")
