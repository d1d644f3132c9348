"""Who may move a job forward: the attempt whose generation the head names, and nobody else."""

from __future__ import annotations

from dataclasses import dataclass

from gpujob.checkpoints import head as heads
from gpujob.core.errors import Fenced, NotFound
from gpujob.core.layout import JobKeys
from gpujob.core.reasons import Reason
from gpujob.core.records import Head, Heartbeat, Lease
from gpujob.store.protocol import Store


@dataclass(frozen=True, slots=True)
class Held:
    """A lease as its holder knows it. Whether it still holds is for the head to say."""

    store: Store
    job_id: str
    attempt: int
    generation: int
    holder: str

    def owns(self, head: Head) -> bool:
        """Say whether `head` names this lease."""
        return head.lease is not None and head.lease.holder == self.holder and head.generation == self.generation

    def require(self, head: Head) -> None:
        """Raise Fenced unless `head` names this lease."""
        if not self.owns(head):
            by = f"attempt {head.attempt} (generation {head.generation})"
            mine = f"attempt {self.attempt} (generation {self.generation})"
            raise Fenced("go on with", f"job {self.job_id} as {mine}", f"{by} has taken it over")


def acquire(store: Store, job_id: str, attempt: int, holder: str, now: float, *, driver: str | None = None) -> Held:
    """Take the job over from every earlier attempt; raises Fenced when this attempt is not the newest.

    `driver` is the client that started it: when the head names another, the job is not that client's to drive. What an
    attempt that never finished had spent by its last beat is added to the head's books.
    """

    def take(head: Head) -> Head:
        if head.lease is not None and head.lease.holder == holder:
            return head
        if head.outcome is not None:
            raise Fenced("start", f"attempt {attempt} of job {job_id}", f"the job is over: {head.outcome}")
        if head.driver is not None and head.driver != driver:
            raise Fenced("start", f"attempt {attempt} of job {job_id}", "another computer drives the job now")
        if head.attempt >= attempt:
            raise Fenced("start", f"attempt {attempt} of job {job_id}", f"attempt {head.attempt} has been started")
        seconds, cost = _unbooked(store, head)
        return head.model_copy(
            update={
                "generation": head.generation + 1,
                "attempt": attempt,
                "lease": Lease(holder=holder, attempt=attempt, acquired_at=now),
                "spent_seconds": head.spent_seconds + seconds,
                "spent_cost": head.spent_cost + cost,
            }
        )

    head = heads.update(store, job_id, take)
    return Held(store, job_id, attempt, head.generation, holder)


def check(held: Held) -> Head:
    """Read the head; raises Fenced when another attempt has taken over."""
    head = heads.read(held.store, held.job_id)
    held.require(head)
    return head


def finish(held: Held, spent_seconds: float, spent_cost: float, outcome: Reason | None) -> None:
    """Give the lease back and book what the attempt cost; `outcome` ends the job for good."""

    def release(head: Head) -> Head:
        if head.lease is None and head.generation == held.generation:
            return head
        held.require(head)
        return head.model_copy(
            update={
                "lease": None,
                "spent_seconds": head.spent_seconds + spent_seconds,
                "spent_cost": head.spent_cost + spent_cost,
                "outcome": outcome,
            }
        )

    heads.update(held.store, held.job_id, release)


def close(store: Store, job_id: str, outcome: Reason) -> Head:
    """End the job for good from outside: no attempt can start or commit any more.

    An outcome that stands already is kept. A lease that was never given back is booked by its last beat.
    """

    def end(head: Head) -> Head:
        if head.outcome is not None:
            return head
        seconds, cost = _unbooked(store, head)
        return head.model_copy(
            update={
                "generation": head.generation + 1,
                "lease": None,
                "spent_seconds": head.spent_seconds + seconds,
                "spent_cost": head.spent_cost + cost,
                "outcome": outcome,
            }
        )

    return heads.update(store, job_id, end)


def _unbooked(store: Store, head: Head) -> tuple[float, float]:
    """Give what the head's lease holder had spent by its last beat: nothing when it finished or never beat."""
    if head.lease is None:
        return 0.0, 0.0
    try:
        beat = Heartbeat.decode(store.get(JobKeys(head.job_id).attempt(head.lease.attempt).beat))
    except NotFound:
        return 0.0, 0.0
    return beat.elapsed, beat.cost
