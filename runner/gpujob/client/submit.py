"""Submitting: in the foreground, so that the files are those of this moment and the person sees them go."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpujob import bundle, locks
from gpujob.checkpoints import head as heads
from gpujob.client import outbox, secrets
from gpujob.client.journal import Journal, JournalEntry
from gpujob.client.secrets import JobSecrets
from gpujob.client.settings import Settings
from gpujob.client.supervisor import ensure_running
from gpujob.client.tools import Clock
from gpujob.core.errors import AlreadyExists, StoreError, UsageError
from gpujob.core.job import Job
from gpujob.core.layout import APP, JobKeys
from gpujob.core.moves import Abandoned, Begin
from gpujob.core.plan import Plan
from gpujob.store.open import is_local
from gpujob.store.probe import probe
from gpujob.store.protocol import Progress, Store


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that is on its way."""

    job_id: str
    packed: bundle.Packed
    shipped: bundle.Shipped


def pack(plan: Plan, settings: Settings, progress: Progress | None = None) -> bundle.Packed:
    """Choose and hash what travels with a job: the parts of its plan, and gpujob itself."""
    parts = {name: Path(path) for name, path in plan.local_parts.items()}
    return bundle.pack({**parts, APP: bundle.app_part()}, progress, cache=settings.home.hashes)


def submit(
    plan: Plan,
    packed: bundle.Packed,
    known: JobSecrets,
    settings: Settings,
    store: Store,
    *,
    progress: Progress | None = None,
    clock: Clock = time.time,
    wake: Callable[[Settings], None] = ensure_running,
) -> Submitted:
    """Put a job into its store, and on its way. Killed at any point it leaves no job, or one that is cleared up.

    Raises UsageError when an active job has the name; StoreError when the store cannot keep it safe; StoreError,
    Damaged or CheckError when its parts cannot be sent.
    """
    _require_conditions(store)
    journal = Journal(settings.home)
    with _submitting(settings, plan, journal):
        try:
            secrets.save(settings.home, plan.job_id, known)
            _put_plan(store, plan)
            shipped = _ship(settings, plan, packed, store, progress)
            _create_head(store, plan.job_id)
        except BaseException as error:
            why = str(error) or type(error).__name__
            journal.apply(plan.job_id, Abandoned(clock(), why))
            secrets.remove(settings.home, plan.job_id)
            raise
        entry = journal.apply(plan.job_id, Begin(clock()))
    if entry.job.active:
        wake(settings)
    return Submitted(plan.job_id, packed, shipped)


def _ship(
    settings: Settings, plan: Plan, packed: bundle.Packed, store: Store, progress: Progress | None
) -> bundle.Shipped:
    """Put the files into the store; for another machine, only note where they are: they go there, and on from there."""
    if all(host.ssh for host in plan.hosts):
        outbox.save(settings.home, plan.job_id, packed)
        return bundle.Shipped(0, 0, packed.total_bytes, len(packed.sources))
    return bundle.ship(store, plan.job_id, packed, progress)


@contextmanager
def _submitting(settings: Settings, plan: Plan, journal: Journal) -> Iterator[None]:
    """Enter the job into the journal, if its name is free, and show until the end that its submit lives."""
    path = settings.home.submitting(plan.job_id)
    with locks.locked(path):
        try:
            with locks.locked(settings.home.names):
                refuse_twins(journal, plan)
                journal.create(JournalEntry(plan=plan, job=Job(id=plan.job_id)))
            yield
        finally:
            path.unlink(missing_ok=True)


def _require_conditions(store: Store) -> None:
    """Prove that a remote store keeps its conditions: where it does not, two attempts could both move a job on."""
    if not is_local(store.url) and (problems := probe(store).problems):
        hint = "choose a store with conditional writes: S3, GCS, Azure, R2, SeaweedFS, MinIO, or a folder"
        raise StoreError("keep a job in", store.url, "; ".join(problems), hint)


def refuse_twins(journal: Journal, plan: Plan) -> None:
    """Raise UsageError when a job of the plan's name is active."""
    for entry in journal.all()[0]:
        if entry.plan.name == plan.name and not entry.job.terminal:
            hint = f"wait for it, `gpujob cancel {entry.job.id}`, or choose another name"
            raise UsageError("submit", plan.name, f"{entry.job.id} of that name is {entry.job.state}", hint)


def _put_plan(store: Store, plan: Plan) -> None:
    key, data = JobKeys(plan.job_id).plan, plan.encode()
    try:
        store.put(key, data, if_absent=True)
    except AlreadyExists:
        if store.get(key) != data:
            raise


def _create_head(store: Store, job_id: str) -> None:
    try:
        heads.create(store, job_id)
    except AlreadyExists:
        # The answer to our own put was lost. A head of anybody else would have come with another job.json.
        heads.read(store, job_id)
