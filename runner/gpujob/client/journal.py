"""What this client knows of its jobs: one file each, changed only in transactions that survive a kill at any point."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from gpujob import files, locks
from gpujob.core import lifecycle, sentences
from gpujob.core.errors import Damaged, NotFoundJob
from gpujob.core.job import Job, Policy, State
from gpujob.core.layout import HomePaths
from gpujob.core.moves import Abandoned, Beat, JobEvent
from gpujob.core.plan import Plan
from gpujob.core.records import Event, Heartbeat, Record
from gpujob.hosts.protocol import Rental

_HISTORY = 500
"""Remembered events of a job; older ones are dropped."""
_STALE_SECONDS = 3600.0


class JournalEntry(Record):
    """One job. `beat` is the newest heartbeat seen, `rentals` every machine that is not released, by its ref.

    `trouble` is what the supervisor cannot get past at the moment; empty when all is well.
    """

    plan: Plan
    job: Job
    beat: Heartbeat | None = None
    rentals: dict[str, Rental] = Field(default_factory=dict)
    history: tuple[Event, ...] = ()
    trouble: str = ""

    @property
    def policy(self) -> Policy:
        """The policy of the job's spec."""
        return Policy.of(self.plan.spec)

    def after(self, event: JobEvent) -> JournalEntry:
        """Give the entry after an event; the same one when it changes nothing."""
        job, _ = lifecycle.step(self.job, event, self.policy)
        beat = event.beat if isinstance(event, Beat) else self.beat
        if job == self.job and beat == self.beat:
            return self
        known = {ref: rental for ref, rental in self.rentals.items() if ref in (job.host, *job.unreleased)}
        entry = self.model_copy(update={"job": job, "beat": beat, "rentals": known})
        if job.state is self.job.state:
            return entry
        return entry.noting(event.at, job.state.value, sentences.standing(job))

    def noting(self, at: float, kind: str, text: str) -> JournalEntry:
        """Give the entry with a line more in its history."""
        line = Event(at=at, attempt=self.job.attempt, kind=kind, text=text)
        return self.model_copy(update={"history": (*self.history, line)[-_HISTORY:]})


@dataclass(frozen=True, slots=True)
class Journal:
    """The entries below one home."""

    home: HomePaths

    def create(self, entry: JournalEntry) -> None:
        """Write the entry of a new job."""
        self._write(entry.job.id, entry)

    def read(self, job_id: str) -> JournalEntry:
        """Read one entry; raises NotFoundJob, or Damaged naming the file."""
        path = self.home.job(job_id)
        try:
            return JournalEntry.decode(path.read_bytes())
        except FileNotFoundError:
            raise NotFoundJob("find", f"job {job_id}", "this computer does not know it") from None
        except ValidationError as error:
            cause = f"{error.error_count()} of its fields are wrong or missing"
            raise Damaged("read", str(path), cause, "move it away; the job itself lies in its store") from error

    def update(self, job_id: str, change: Callable[[JournalEntry], JournalEntry]) -> JournalEntry:
        """Read, change and write one entry, alone: no other process's change is lost. Give the new entry."""
        with locks.locked(self.home.lock(job_id)):
            old = self.read(job_id)
            new = change(old)
            if new is not old:
                self._write(job_id, new)
            return new

    def apply(self, job_id: str, event: JobEvent) -> JournalEntry:
        """Take an event into a job's entry; give the new entry."""
        return self.update(job_id, lambda entry: entry.after(event))

    def ids(self) -> list[str]:
        """List the ids of all jobs, damaged ones too."""
        return sorted(path.stem for path in self.home.journal.glob("*.json"))

    def all(self) -> tuple[list[JournalEntry], list[Damaged]]:
        """Read every entry, oldest job first, and say which cannot be read."""
        entries, damaged = [], []
        for job_id in self.ids():
            try:
                entries.append(self.read(job_id))
            except Damaged as error:
                damaged.append(error)
            except NotFoundJob:
                continue
        return sorted(entries, key=lambda entry: (entry.plan.created_at, entry.job.id)), damaged

    def find(self, text: str) -> JournalEntry:
        """Give the job of that id, of that name (the newest one), or of that beginning of an id.

        Raises NotFoundJob with the candidates when there is none or more than one, Damaged when that one is.
        """
        if text in self.ids():
            return self.read(text)
        entries, _ = self.all()
        if named := [entry for entry in entries if entry.plan.name == text]:
            return named[-1]
        begun = [entry for entry in entries if text and entry.job.id.startswith(text)]
        if len(begun) == 1:
            return begun[0]
        candidates = ", ".join(entry.job.id for entry in (begun or entries)[-10:])
        cause = "several jobs begin like that" if begun else "there is no such job"
        raise NotFoundJob("find", f"job {text!r}", cause, f"known: {candidates}" if candidates else "")

    def abandon_dead_submits(self, now: float) -> None:
        """End the jobs whose submit was killed before everything lay in the store."""
        for path in self.home.journal.glob("*.submit"):
            with suppress(NotFoundJob, Damaged):
                planned = self.read(path.stem).job.state is State.PLANNED
                # In this order: an entry is made while the lock is held.
                if not locks.is_held(path):
                    if planned:
                        self.apply(path.stem, Abandoned(now, "the submit was interrupted"))
                    path.unlink(missing_ok=True)

    def signature(self, job_id: str) -> tuple[int, int]:
        """Give what differs whenever an entry was written: a cheap way to see that somebody changed it."""
        return _signature(self.home.job(job_id))

    def sweep(self, now: float) -> None:
        """Remove what killed writers left; a young one may belong to a writer that lives."""
        for path in self.home.journal.glob(".*"):
            with suppress(FileNotFoundError):
                if files.is_temp(path) and now - path.stat().st_mtime > _STALE_SECONDS:
                    path.unlink()

    def _write(self, job_id: str, entry: JournalEntry) -> None:
        files.write(self.home.job(job_id), entry.encode(), mode=0o600)


def _signature(path: Path) -> tuple[int, int]:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return 0, 0
    return stat.st_ino, stat.st_mtime_ns
