"""How a job stands: from the journal, and from its store where that answers. `--json` prints this record."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from gpujob.checkpoints import head as heads
from gpujob.client.journal import JournalEntry
from gpujob.client.watch import read_beat
from gpujob.core import sentences
from gpujob.core.errors import Damaged, StoreError
from gpujob.core.job import Job, State
from gpujob.core.reasons import Reason
from gpujob.core.records import Head, Heartbeat, Phase
from gpujob.store.protocol import Store


class Amount(BaseModel):
    """Time, and the money for it."""

    model_config = ConfigDict(frozen=True)
    seconds: float = 0.0
    cost: float = 0.0


class Status(BaseModel):
    """How a job stands.

    `spent` covers all attempts, `at_risk` the work since the newest durable checkpoint: what a kill would cost now.
    `heard_at` is when the running attempt last beat. `unreleased` are machines that may still be billing. `trouble`
    is what the supervisor cannot get past; `stale` says that the store did not answer.
    """

    model_config = ConfigDict(frozen=True)
    id: str
    name: str
    state: State
    reason: Reason | None
    sentence: str
    host: str | None
    attempt: int
    phase: Phase | None
    step: int
    total_steps: int | None
    loss: float | None
    durable_step: int
    at_risk: Amount
    spent: Amount
    submitted_at: float
    ended_at: float | None
    heard_at: float | None
    unreleased: tuple[str, ...]
    trouble: str
    stale: bool


def status(entry: JournalEntry, store: Store | None, now: float) -> Status:
    """Say how a job stands. What the store says is newer than the journal, and never less than it."""
    job = entry.job
    head, beat = _ask(store, entry)
    running = job.running or job.following is not None
    news = beat if running and not job.terminal else None
    durable = max(job.durable_step, head.newest.step if head and head.newest else 0)
    return Status(
        id=job.id,
        name=entry.plan.name,
        state=job.state,
        reason=job.reason,
        sentence=" ".join(text for text in (sentences.standing(job), sentences.billing(job)) if text),
        host=job.host,
        attempt=job.following or job.attempt,
        phase=news.phase if news else None,
        step=max(news.step if news else job.step, durable),
        total_steps=beat.total_steps if beat else None,
        loss=beat.loss if beat else None,
        durable_step=durable,
        at_risk=_at_risk(news, now),
        spent=_spent(job, head, beat),
        submitted_at=entry.plan.created_at,
        ended_at=job.ended_at,
        heard_at=news.at if news else None,
        unreleased=job.unreleased,
        trouble=entry.trouble,
        stale=store is not None and head is None,
    )


def _ask(store: Store | None, entry: JournalEntry) -> tuple[Head | None, Heartbeat | None]:
    """Read the head and its attempt's newest heartbeat; what cannot be had comes out of the journal."""
    if store is None or entry.job.state is State.PLANNED:
        return None, entry.beat
    try:
        head = heads.read(store, entry.job.id)
        beat = read_beat(store, entry.job.id, head.attempt) if head.attempt else None
    except (StoreError, Damaged):
        return None, entry.beat
    known = entry.beat
    if beat is None or (known is not None and (known.attempt, known.at) > (beat.attempt, beat.at)):
        beat = known
    return head, beat


def _spent(job: Job, head: Head | None, beat: Heartbeat | None) -> Amount:
    """Add up all attempts: the head's books, with the running attempt's share as long as it is not in them.

    The journal's own books are the floor: they may know of a report that a store forgot.
    """
    seconds, cost = job.spent_seconds + job.elapsed, job.spent_cost + job.cost
    if head is None:
        return Amount(seconds=seconds, cost=cost)
    open_beat = beat if beat and head.lease and head.lease.attempt == beat.attempt else None
    return Amount(
        seconds=max(seconds, head.spent_seconds + (open_beat.elapsed if open_beat else 0.0)),
        cost=max(cost, head.spent_cost + (open_beat.cost if open_beat else 0.0)),
    )


def _at_risk(beat: Heartbeat | None, now: float) -> Amount:
    """Give the work that is not durable yet, at the price the attempt has paid so far."""
    if beat is None:
        return Amount()
    began = beat.at - beat.elapsed
    since = began if beat.durable_at is None else max(began, beat.durable_at)
    seconds = max(0.0, now - since)
    return Amount(seconds=seconds, cost=seconds * beat.cost / beat.elapsed if beat.elapsed > 0 else 0.0)
