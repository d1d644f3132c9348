"""Why an attempt ended, and what follows from it: one table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Reason(str, Enum):
    """Why an attempt (and with a final one, its job) ended."""

    DONE = "DONE"
    PREEMPTED = "PREEMPTED"
    HOST_GONE = "HOST_GONE"
    NO_CAPACITY = "NO_CAPACITY"
    OOM = "OOM"
    CRASHED = "CRASHED"
    STALLED = "STALLED"
    STORE_ERROR = "STORE_ERROR"
    BAD_SPEC = "BAD_SPEC"
    BAD_DATA = "BAD_DATA"
    DIVERGED = "DIVERGED"
    LIMIT_TIME = "LIMIT_TIME"
    LIMIT_COST = "LIMIT_COST"
    SUPERSEDED = "SUPERSEDED"
    CANCELLED = "CANCELLED"

    def __str__(self) -> str:
        return self.value


class Budget(str, Enum):
    """Which allowance an ended attempt spends."""

    NONE = "none"
    PREEMPTIONS = "preemptions"
    FAILURES = "failures"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What follows from a reason: `again` = another attempt may start, within `budget`."""

    again: bool
    budget: Budget
    meaning: str


OUTCOMES: dict[Reason, Outcome] = {
    Reason.DONE: Outcome(False, Budget.NONE, "the training finished"),
    Reason.PREEMPTED: Outcome(True, Budget.PREEMPTIONS, "the machine was told to stop"),
    Reason.HOST_GONE: Outcome(True, Budget.PREEMPTIONS, "the machine, or everything of the job on it, disappeared"),
    Reason.NO_CAPACITY: Outcome(True, Budget.PREEMPTIONS, "no machine could be had"),
    Reason.OOM: Outcome(True, Budget.FAILURES, "memory ran out"),
    Reason.CRASHED: Outcome(True, Budget.FAILURES, "the program ended with an error"),
    Reason.STALLED: Outcome(True, Budget.FAILURES, "the training made no step for too long"),
    Reason.STORE_ERROR: Outcome(True, Budget.FAILURES, "object storage could not be used"),
    Reason.BAD_SPEC: Outcome(False, Budget.NONE, "the job's settings cannot work"),
    Reason.BAD_DATA: Outcome(False, Budget.NONE, "the data cannot be trained on"),
    Reason.DIVERGED: Outcome(False, Budget.NONE, "the loss or a gradient became NaN or infinite"),
    Reason.LIMIT_TIME: Outcome(False, Budget.NONE, "the time limit was reached"),
    Reason.LIMIT_COST: Outcome(False, Budget.NONE, "the cost limit was reached"),
    Reason.SUPERSEDED: Outcome(False, Budget.NONE, "another attempt took the job over"),
    Reason.CANCELLED: Outcome(False, Budget.NONE, "a person cancelled it"),
}
