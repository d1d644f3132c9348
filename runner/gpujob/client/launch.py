"""Acting: each function does one action of the state machine and gives what became of it. All may be done twice."""

from __future__ import annotations

from collections.abc import Callable

from gpujob import bundle
from gpujob.checkpoints import head as heads
from gpujob.checkpoints import lease
from gpujob.client import outbox, secrets
from gpujob.client.journal import JournalEntry
from gpujob.client.tools import Tools
from gpujob.core import moves
from gpujob.core.errors import Damaged, GpujobError, HostError, HostUnreachable, NotFound
from gpujob.core.job import Job
from gpujob.core.reasons import Reason
from gpujob.core.records import Head, Intent, Launch
from gpujob.hosts.protocol import Presence, Rental

Change = Callable[[JournalEntry], JournalEntry]
"""What became of an action, to be taken into the journal."""


def taking(event: moves.JobEvent) -> Change:
    """Give the change that takes an event in."""
    return lambda entry: entry.after(event)


def acquire(tools: Tools, entry: JournalEntry, action: moves.Acquire) -> Change:
    """Keep the machine there is, else get one of the first host that has one."""
    kept = entry.rentals.get(action.host or "")
    if kept is not None and tools.host(kept).look(kept) is Presence.HERE:
        return taking(moves.HostReady(tools.clock(), kept.ref))
    refusals = []
    for index, host in enumerate(tools.hosts):
        try:
            rental = host.acquire(entry.job.id)
        except HostError as error:
            refusals.append(str(error))
        else:
            return _renting(rental.model_copy(update={"host": index}), tools.clock())
    return taking(moves.NoCapacity(tools.clock(), "; ".join(refusals)))


def ship(tools: Tools, entry: JournalEntry) -> Change:
    """See that everything lies in the store, and that the job is still open and ours to drive."""
    job, now = entry.job, tools.clock()
    rental = _rental(entry)
    try:
        head = heads.read(tools.store, job.id)
        if elsewhere := _elsewhere(head, job, now):
            return taking(elsewhere)
        if tools.rented(rental):
            tools.runtime(rental).ship(outbox.cargo(tools.settings.home, tools.plan, tools.store, rental))
        else:
            bundle.read(tools.store, job.id)
    except (NotFound, Damaged) as error:
        return taking(moves.LaunchFailed(now, Reason.STORE_ERROR, str(error)))
    except HostUnreachable as error:
        # Nothing has been started there. Whether the machine is gone, the next look will tell.
        return taking(moves.LaunchFailed(now, Reason.HOST_GONE, str(error)))
    return taking(moves.Shipped(tools.clock()))


def start(tools: Tools, entry: JournalEntry, action: moves.Start) -> Change | None:
    """Start the attempt's agent on the machine."""
    plan, rental = tools.plan, _rental(entry)
    if missing := [name for name in plan.spec.secrets if name not in tools.secrets.values]:
        why = f"the values of the secrets {', '.join(missing)} are not on this computer any more"
        return taking(moves.LaunchFailed(tools.clock(), Reason.BAD_SPEC, why))
    launch = Launch(
        job_id=plan.job_id,
        attempt=action.attempt,
        store=plan.store,
        root=rental.root,
        price_per_hour=rental.price_per_hour,
        beat_seconds=tools.settings.beat_seconds,
        rented=tools.rented(rental),
        secrets=tools.secrets.values,
        store_env=tools.secrets.store_env,
    )
    try:
        tools.runtime(rental).start(launch)
    except HostUnreachable:
        raise  # it may have begun: asking again is harmless, and taking it for failed is not
    except HostError as error:
        return _not_started(tools.clock(), Reason.CRASHED, error)
    except Damaged as error:
        return _not_started(tools.clock(), Reason.STORE_ERROR, error)
    return None


def interrupt(tools: Tools, entry: JournalEntry) -> None:
    """Write the wish to cancel into the head, where any attempt on any machine sees it with its next beat."""

    def wish(head: Head) -> Head:
        return head if head.intent is Intent.CANCEL else head.model_copy(update={"intent": Intent.CANCEL})

    heads.update(tools.store, entry.job.id, wish)


def stop(tools: Tools, entry: JournalEntry, action: moves.Stop) -> Change | None:
    """Stop every process of our attempts, once it is time; done only when none is left."""
    job = entry.job
    if tools.clock() < action.not_before:
        return None
    if job.host is not None:
        grace = tools.plan.spec.limits.grace if job.running else 0.0
        rental = _rental(entry)
        tools.runtime(rental).stop(job.id, rental.root, job.attempt, grace)
    return taking(moves.Stopped(tools.clock()))


def release(tools: Tools, entry: JournalEntry, action: moves.Release) -> Change:
    """Give a machine back; done only when that is confirmed."""
    rental = entry.rentals[action.host]
    tools.host(rental).release(entry.job.id, rental, action.last_attempt)
    return taking(moves.Released(tools.clock(), rental.ref))


def settle(tools: Tools, entry: JournalEntry, action: moves.Settle) -> Change:
    """Make the outcome stand in the head, and forget the secrets."""
    job = entry.job
    try:
        # An attempt of another client is not ours to end.
        if heads.read(tools.store, job.id).attempt <= max(job.attempt, job.following or 0):
            lease.close(tools.store, job.id, action.outcome)
    except NotFound:
        pass  # its submit never came so far, or somebody has deleted the job
    secrets.remove(tools.settings.home, job.id)
    outbox.remove(tools.settings.home, job.id)
    return taking(moves.Settled(tools.clock()))


def _elsewhere(head: Head, job: Job, now: float) -> moves.JobEvent | None:
    """Say what others did with the job that keeps us from starting an attempt."""
    if head.outcome is not None:
        durable = head.newest.step if head.newest else 0
        return moves.Closed(now, head.outcome, durable_step=durable)
    if head.attempt > job.attempt:
        return moves.TakenOver(now, head.attempt)
    return moves.CancelRequested(now) if head.intent is not Intent.RUN else None


def _not_started(now: float, reason: Reason, error: GpujobError) -> Change:
    """Keep all that was said in the history, and its last line, which says most, for the sentence."""
    why = f"the agent could not be started: {error.cause.strip().splitlines()[-1]}"
    return lambda entry: entry.noting(now, "launch", str(error)).after(moves.LaunchFailed(now, reason, why))


def _renting(rental: Rental, now: float) -> Change:
    def note(entry: JournalEntry) -> JournalEntry:
        rentals = {**entry.rentals, rental.ref: rental}
        return entry.model_copy(update={"rentals": rentals}).after(moves.HostReady(now, rental.ref))

    return note


def _rental(entry: JournalEntry) -> Rental:
    assert entry.job.host is not None, "an attempt runs on a machine"
    return entry.rentals[entry.job.host]
