"""From an error, or a job's outcome, to the exit code a script can branch on: one table each."""

from __future__ import annotations

from enum import IntEnum

from gpujob.core import errors
from gpujob.core.reasons import Reason


class Exit(IntEnum):
    """Every code `gpujob` can exit with."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    BAD_SPEC = 10
    CHECK_FAILED = 11
    JOB_FAILED = 12
    JOB_CANCELLED = 13
    LIMIT_REACHED = 14
    STORE = 20
    HOST = 21
    INTERRUPTED = 130
    NOBODY_READS = 141


MEANINGS: dict[Exit, str] = {
    Exit.OK: "done; for `wait` and `submit --follow`: the training finished",
    Exit.UNEXPECTED: "a bug of gpujob's, or this machine's disk could not be used",
    Exit.USAGE: "the command line is wrong, or no job answers to that ID",
    Exit.BAD_SPEC: "job.yaml is wrong; every problem is listed with line and column",
    Exit.CHECK_FAILED: "the spec is well formed, but the job would fail",
    Exit.JOB_FAILED: "the job failed",
    Exit.JOB_CANCELLED: "the job was cancelled",
    Exit.LIMIT_REACHED: "the job reached its time or cost limit",
    Exit.STORE: "object storage could not be used, or what it holds is damaged",
    Exit.HOST: "a machine, or a process on it, could not do what was asked",
    Exit.INTERRUPTED: "Ctrl-C; a job that was followed goes on",
    Exit.NOBODY_READS: "the reader of our output has gone (such as `head`)",
}

_ERRORS: tuple[tuple[type[errors.GpujobError], Exit], ...] = (
    (errors.UsageError, Exit.USAGE),
    (errors.NotFoundJob, Exit.USAGE),
    (errors.SpecError, Exit.BAD_SPEC),
    (errors.CheckError, Exit.CHECK_FAILED),
    (errors.ResumeRefused, Exit.CHECK_FAILED),
    (errors.StoreError, Exit.STORE),
    (errors.Damaged, Exit.STORE),
    (errors.Fenced, Exit.STORE),
    (errors.HostError, Exit.HOST),
)

_OUTCOMES: dict[Reason, Exit] = {
    Reason.DONE: Exit.OK,
    Reason.CANCELLED: Exit.JOB_CANCELLED,
    Reason.LIMIT_TIME: Exit.LIMIT_REACHED,
    Reason.LIMIT_COST: Exit.LIMIT_REACHED,
}


def of_error(error: errors.GpujobError) -> Exit:
    """Give the code of an error that was raised on purpose."""
    return next((code for kind, code in _ERRORS if isinstance(error, kind)), Exit.UNEXPECTED)


def of_outcome(reason: Reason) -> Exit:
    """Give the code of a job that ended for `reason`; all that is not listed is a failure."""
    return _OUTCOMES.get(reason, Exit.JOB_FAILED)
