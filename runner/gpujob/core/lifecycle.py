"""The whole state machine: `step` says what an event makes of a job, `pending` what there is to do in a state.

Both are pure and total. `pending` depends on the job alone and all its actions may be done twice, so a client that is
killed between saving a state and acting on it loses nothing: the next one reads the state and goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gpujob.core import sentences
from gpujob.core.job import ATTEMPTING, TERMINAL, Job, Policy, State
from gpujob.core.moves import (
    Abandoned,
    Acquire,
    Action,
    Beat,
    Begin,
    CancelRequested,
    Closed,
    Due,
    Exited,
    HostGone,
    HostReady,
    Interrupt,
    JobEvent,
    LaunchFailed,
    NoCapacity,
    Release,
    Released,
    Settle,
    Settled,
    Ship,
    Shipped,
    Start,
    Stop,
    Stopped,
    TakenOver,
    Unreachable,
    Wait,
    Watch,
)
from gpujob.core.reasons import OUTCOMES, Budget, Reason

_WAITING = frozenset({State.BACKOFF, State.ACQUIRING, State.SHIPPING})
_DRIVEN = _WAITING | ATTEMPTING
_OPEN = _DRIVEN | {State.STOPPING, State.FOLLOWING}

Rule = Callable[[Job, Any, Policy], Job]


def step(job: Job, event: JobEvent, policy: Policy) -> tuple[Job, tuple[Action, ...]]:
    """Give the job after an event, and what there is to do now; an event that says nothing new changes nothing."""
    rule = _TABLE.get((job.state, type(event)))
    after = rule(job, event, policy) if rule else job
    return after, pending(after)


def pending(job: Job) -> tuple[Action, ...]:
    """Give what there is to do in the job's state."""
    ended = job.attempt - 1 if job.running else job.attempt
    return _WORK[job.state](job) + tuple(Release(host, ended) for host in job.unreleased)


def _begin(job: Job, event: Begin, policy: Policy) -> Job:
    return _with(job, state=State.ACQUIRING)


def _abandoned(job: Job, event: Abandoned, policy: Policy) -> Job:
    return _end(job, event.at, Reason.CANCELLED, f"it was not submitted completely: {event.why}")


def _host_ready(job: Job, event: HostReady, policy: Policy) -> Job:
    left = job if job.host == event.host else _give_up_host(job)
    still = tuple(host for host in left.unreleased if host != event.host)
    return _with(
        left, state=State.SHIPPING, host=event.host, unreleased=still, shortages=0, short_since=None, reason=None
    )


def _unwanted_host(job: Job, event: HostReady, policy: Policy) -> Job:
    known = event.host in (job.host, *job.unreleased)
    return job if known else _with(job, unreleased=(*job.unreleased, event.host))


def _no_capacity(job: Job, event: NoCapacity, policy: Policy) -> Job:
    since = event.at if job.short_since is None else job.short_since
    short = _with(job, shortages=job.shortages + 1, short_since=since)
    if event.at - since >= policy.wait:
        why = sentences.no_machine(event.at - since, event.why)
        return _end(short, event.at, Reason.NO_CAPACITY, why)
    return _go_on(short, event.at, Reason.NO_CAPACITY, event.why, policy)


def _shipped(job: Job, event: Shipped, policy: Policy) -> Job:
    return _with(
        job,
        state=State.STARTING,
        attempt=job.attempt + 1,
        running=True,
        step=job.durable_step,
        durable_step_at_start=job.durable_step,
    )


def _launch_failed(job: Job, event: LaunchFailed, policy: Policy) -> Job:
    return _go_on(_book(job), event.at, event.reason, event.why, policy)


def _beat(job: Job, event: Beat, policy: Policy) -> Job:
    if event.beat.attempt != job.attempt or not job.running:
        return job
    state = State.STOPPING if job.state is State.STOPPING else State.RUNNING
    return _with(_progress(job, event.beat), state=state, unreachable_since=None)


def _unreachable(job: Job, event: Unreachable, policy: Policy) -> Job:
    return _with(job, state=State.UNREACHABLE, unreachable_since=event.at)


def _exited(job: Job, event: Exited, policy: Policy) -> Job:
    report = event.report
    if report.attempt != job.attempt:
        return job
    ended = _book(_progress(job, report))
    if report.reason is Reason.SUPERSEDED:
        return _follow(ended, job.attempt + 1)
    return _go_on(ended, event.at, report.reason, report.sentence, policy)


def _host_gone(job: Job, event: HostGone, policy: Policy) -> Job:
    if event.attempt != job.attempt:
        return job
    left = job if event.machine_here else _give_up_host(job)
    return _go_on(_book(left), event.at, Reason.HOST_GONE, event.evidence, policy)


def _due(job: Job, event: Due, policy: Policy) -> Job:
    return (
        job if job.due is not None and event.at < job.due else _with(job, state=State.ACQUIRING, due=None, sentence="")
    )


def _cancel(job: Job, event: CancelRequested, policy: Policy) -> Job:
    due = event.at + policy.stop_patience if job.running else event.at
    return _with(job, state=State.STOPPING, due=due, sentence="")


def _cancel_submit(job: Job, event: CancelRequested, policy: Policy) -> Job:
    return _end(job, event.at, Reason.CANCELLED, "it was cancelled while it was submitted")


def _stopping_exited(job: Job, event: Exited, policy: Policy) -> Job:
    report = event.report
    theirs = job.following is not None and report.attempt >= job.following
    if not theirs and not (job.running and report.attempt == job.attempt):
        return job
    ended = _book(_progress(job, report))
    if report.reason is Reason.DONE:
        return _end(ended, event.at, Reason.DONE, report.sentence)
    # Whoever reported is gone; what it may have left behind is stopped before the job counts as cancelled.
    return _cancelled(ended, event.at) if theirs else ended


def _stopping_host_gone(job: Job, event: HostGone, policy: Policy) -> Job:
    if not job.running or event.attempt != job.attempt:
        return job
    return _book(job) if event.machine_here else _cancelled(_book(job), event.at)


def _stopping_launch_failed(job: Job, event: LaunchFailed, policy: Policy) -> Job:
    return _book(job)


def _stopped(job: Job, event: Stopped, policy: Policy) -> Job:
    return _cancelled(_book(job), event.at) if job.following is None else job


def _taken_over(job: Job, event: TakenOver, policy: Policy) -> Job:
    if event.attempt <= max(job.attempt, job.following or 0):
        return job
    if job.state is State.STOPPING:
        return _with(_give_up_host(_book(job)), following=event.attempt)
    return _follow(_book(job), event.attempt)


def _closed(job: Job, event: Closed, policy: Policy) -> Job:
    ended = _book(_with(job, durable_step=max(job.durable_step, event.durable_step)))
    return _end(ended, event.at, event.outcome, event.sentence)


def _released(job: Job, event: Released, policy: Policy) -> Job:
    return _with(job, unreleased=tuple(host for host in job.unreleased if host != event.host))


def _settled(job: Job, event: Settled, policy: Policy) -> Job:
    return _with(job, settled=True)


def _go_on(job: Job, at: float, reason: Reason, what: str, policy: Policy) -> Job:
    """Start another attempt later, or end the job: the reason, the budgets and the limits decide."""
    what = what or OUTCOMES[reason].meaning
    if not OUTCOMES[reason].again:
        return _end(job, at, reason, what)
    if policy.max_seconds is not None and job.spent_seconds >= policy.max_seconds:
        return _end(job, at, Reason.LIMIT_TIME, f"the time limit was reached when an attempt ended: {what}")
    if policy.max_cost is not None and 0 < job.spent_cost >= policy.max_cost:
        return _end(job, at, Reason.LIMIT_COST, f"the cost limit was reached when an attempt ended: {what}")
    field, limit = _budget(OUTCOMES[reason].budget, policy)
    used = int(getattr(job, field))
    if limit is not None and used >= limit:
        return _end(job, at, reason, sentences.exhausted(what, limit))
    if job.barren >= policy.max_without_progress:
        return _end(job, at, reason, sentences.no_progress(job.barren, what))
    wait = _backoff(job, policy)
    granted = _with(job, state=State.BACKOFF, reason=reason, due=at + wait, **{field: used + 1})
    return _with(granted, sentence=sentences.retrying(granted, what, wait))


def _budget(budget: Budget, policy: Policy) -> tuple[str, int | None]:
    if budget is Budget.FAILURES:
        return "failures", policy.max_failures
    return "preemptions", policy.max_preemptions


def _backoff(job: Job, policy: Policy) -> float:
    """Double the wait with every attempt in a row that came to nothing; the first is short."""
    doublings = min(max(0, job.barren + job.shortages - 1), 60)
    return min(policy.backoff_first * 2.0**doublings, policy.backoff_longest)


def _end(job: Job, at: float, reason: Reason, what: str) -> Job:
    ended = _give_up_host(_with(job, state=_ENDS.get(reason, State.FAILED), reason=reason, due=None, ended_at=at))
    return _with(ended, sentence=sentences.ending(ended, reason, what))


def _cancelled(job: Job, at: float) -> Job:
    return _end(job, at, Reason.CANCELLED, "it was cancelled")


def _follow(job: Job, attempt: int) -> Job:
    return _with(_give_up_host(job), state=State.FOLLOWING, following=attempt, due=None, sentence="")


def _progress(job: Job, seen: Any) -> Job:
    """Take over the numbers of a heartbeat or an exit report; what is durable and what is spent never shrinks."""
    return _with(
        job,
        step=seen.step,
        durable_step=max(job.durable_step, seen.durable_step),
        elapsed=max(job.elapsed, seen.elapsed),
        cost=max(job.cost, seen.cost),
    )


def _book(job: Job) -> Job:
    """Close the books of the running attempt, once."""
    if not job.running:
        return job
    return _with(
        job,
        running=False,
        barren=0 if job.durable_step > job.durable_step_at_start else job.barren + 1,
        spent_seconds=job.spent_seconds + job.elapsed,
        spent_cost=job.spent_cost + job.cost,
        elapsed=0.0,
        cost=0.0,
        unreachable_since=None,
    )


def _give_up_host(job: Job) -> Job:
    return job if job.host is None else _with(job, host=None, unreleased=(*job.unreleased, job.host))


def _with(job: Job, **changes: Any) -> Job:
    return job.model_copy(update=changes)


def _in(states: Iterable[State], kind: type, rule: Rule) -> dict[tuple[State, type], Rule]:
    return {(state, kind): rule for state in states}


_ENDS = {Reason.DONE: State.SUCCEEDED, Reason.CANCELLED: State.CANCELLED}

_TABLE: dict[tuple[State, type], Rule] = {
    (State.PLANNED, Begin): _begin,
    (State.PLANNED, Abandoned): _abandoned,
    (State.PLANNED, CancelRequested): _cancel_submit,
    **_in(frozenset(State) - {State.ACQUIRING}, HostReady, _unwanted_host),
    (State.ACQUIRING, HostReady): _host_ready,
    (State.ACQUIRING, NoCapacity): _no_capacity,
    (State.SHIPPING, Shipped): _shipped,
    **_in((State.SHIPPING, State.STARTING), LaunchFailed, _launch_failed),
    **_in((*ATTEMPTING, State.STOPPING), Beat, _beat),
    **_in((State.STARTING, State.RUNNING), Unreachable, _unreachable),
    **_in(ATTEMPTING, Exited, _exited),
    **_in(ATTEMPTING, HostGone, _host_gone),
    (State.BACKOFF, Due): _due,
    **_in((*_DRIVEN, State.FOLLOWING), CancelRequested, _cancel),
    (State.STOPPING, Exited): _stopping_exited,
    (State.STOPPING, HostGone): _stopping_host_gone,
    (State.STOPPING, LaunchFailed): _stopping_launch_failed,
    (State.STOPPING, Stopped): _stopped,
    **_in(_OPEN, TakenOver, _taken_over),
    **_in(_OPEN, Closed, _closed),
    **_in(State, Released, _released),
    **_in(TERMINAL, Settled, _settled),
}

_WORK: dict[State, Callable[[Job], tuple[Action, ...]]] = {
    State.PLANNED: lambda job: (),
    State.ACQUIRING: lambda job: (Acquire(job.host),),
    State.SHIPPING: lambda job: (Ship(),),
    State.STARTING: lambda job: (Start(job.attempt), Watch()),
    State.RUNNING: lambda job: (Watch(),),
    State.UNREACHABLE: lambda job: (Watch(),),
    State.BACKOFF: lambda job: (Wait(job.due or 0.0),),
    State.STOPPING: lambda job: _stopping_work(job),
    State.FOLLOWING: lambda job: (Watch(),),
    **{state: lambda job: () if job.settled or job.reason is None else (Settle(job.reason),) for state in TERMINAL},
}


def _stopping_work(job: Job) -> tuple[Action, ...]:
    if job.following is not None:
        return Interrupt(), Watch()
    if job.running:
        return Interrupt(), Watch(), Stop(job.due or 0.0)
    return (Stop(0.0),)
