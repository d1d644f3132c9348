"""What a person is told: plain sentences about a job, built from its state alone."""

from __future__ import annotations

from gpujob.core.job import Job, State
from gpujob.core.reasons import OUTCOMES, Reason
from gpujob.core.units import show_duration

_NEXT: dict[Reason, str] = {
    Reason.DONE: "Get the result with `gpujob pull {id}`.",
    Reason.PREEMPTED: "Raise recovery.max_preemptions, or choose a machine that is not taken away.",
    Reason.HOST_GONE: "Look at `gpujob events {id}`, and choose another machine.",
    Reason.NO_CAPACITY: "Name another machine under hosts, raise recovery.wait, or submit it later.",
    Reason.OOM: "Lower per_device_train_batch_size or max_length, or choose a machine with more memory.",
    Reason.CRASHED: "Read `gpujob logs {id}`, mend the program and submit it again.",
    Reason.STALLED: "Read `gpujob logs {id}`; if a step may take that long, raise limits.stall or limits.startup.",
    Reason.STORE_ERROR: "See that the store can be reached and written to from the machine, and submit it again.",
    Reason.BAD_SPEC: "Mend job.yaml and submit it again.",
    Reason.BAD_DATA: "Mend the data and submit it again.",
    Reason.DIVERGED: "Lower the learning rate or look at the data, and submit it again.",
    Reason.LIMIT_TIME: "Raise limits.duration to let it go further.",
    Reason.LIMIT_COST: "Raise limits.cost to let it go further.",
    Reason.SUPERSEDED: "Look at `gpujob status {id}` where the other attempt was started.",
    Reason.CANCELLED: "Its checkpoints stay in the store; submit it again to start anew.",
}


def ending(job: Job, reason: Reason, what: str) -> str:
    """Say how a job ended: what happened, at which durable step, what it cost, what to do next."""
    happened = full_stop(what or OUTCOMES[reason].meaning)
    return " ".join((happened, _durable(job), _spent(job), _NEXT[reason].format(id=job.id)))


def retrying(job: Job, what: str, wait: float) -> str:
    """Say that another attempt follows, when, and from where."""
    again = "a machine is asked for again" if job.shortages else f"attempt {job.attempt + 1} starts"
    start = f"from step {job.durable_step}" if job.durable_step else "from the start"
    return f"{full_stop(what)} In {show_duration(wait)} {again}, {start}."


def exhausted(what: str, limit: int) -> str:
    """Say that an allowance of retries is used up."""
    return f"{full_stop(what)} No retry is left of {limit} allowed for such an end"


def no_progress(barren: int, what: str) -> str:
    """Say that attempts go round in a circle."""
    return f"{_count(barren, 'attempt', 'attempts')} in a row made no newer durable checkpoint; the last one: {what}"


def no_machine(waited: float, why: str) -> str:
    """Say that no machine could be had for as long as the job may wait."""
    return f"no machine could be had for {show_duration(waited)}; the last answer: {why}"


def billing(job: Job) -> str:
    """Say which machines may still cost money; empty when none."""
    if not job.unreleased:
        return ""
    return f"Not confirmed as released, and may still be billing: {', '.join(job.unreleased)}."


def standing(job: Job) -> str:
    """Say in one sentence where a job stands now."""
    if job.sentence:
        return job.sentence
    if job.state is State.RUNNING:
        durable = (
            f"the newest durable checkpoint is step {job.durable_step}" if job.durable_step else "none is durable yet"
        )
        where = f", at step {job.step}" if job.step else ""
        return f"Attempt {job.attempt} is running{where}; {durable}."
    return _STANDING.get(job.state, "").format(attempt=job.attempt, following=job.following)


_STANDING: dict[State, str] = {
    State.PLANNED: "It is being submitted.",
    State.ACQUIRING: "A machine is being looked for.",
    State.SHIPPING: "The machine is being given what the job needs.",
    State.STARTING: "Attempt {attempt} is being started.",
    State.UNREACHABLE: "Attempt {attempt} cannot be reached; it is left alone and goes on if it can.",
    State.STOPPING: "It is being stopped.",
    State.FOLLOWING: "Attempt {following}, started by another client, drives the job; this one only watches.",
}


def full_stop(text: str) -> str:
    """Make one line of a sentence, begin it with a capital and end it with a full stop."""
    text = " ".join(text.split())
    return (text[:1].upper() + text[1:]).rstrip(".") + "."


def _durable(job: Job) -> str:
    if not job.durable_step:
        return "No checkpoint is durable."
    return f"The newest durable checkpoint is step {job.durable_step}."


def _spent(job: Job) -> str:
    if not job.attempt:
        return "Nothing was spent."
    took = f"{_count(job.attempt, 'attempt', 'attempts')} took {show_duration(job.spent_seconds)}"
    return f"{took} and cost {job.spent_cost:.2f}." if job.spent_cost else f"{took}."


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
