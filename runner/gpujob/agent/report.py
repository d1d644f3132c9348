"""Why an attempt ended: one reason, one plain sentence, and the evidence. Nothing is guessed."""

from __future__ import annotations

import errno
import re
import signal
import traceback
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from gpujob.agent.ending import Ending, Stop
from gpujob.core.errors import Damaged, Fenced, GpujobError, StoreError
from gpujob.core.reasons import Reason
from gpujob.core.records import Verdict

_SAYABLE = frozenset(
    {Reason.DONE, Reason.PREEMPTED, Reason.OOM, Reason.CRASHED, Reason.BAD_SPEC, Reason.BAD_DATA, Reason.DIVERGED}
)
"""What a program can know about its own end."""
_FINAL_STOPS = frozenset({Reason.SUPERSEDED, Reason.CANCELLED})
"""Stops that stand even when the program got ready in its grace."""

_OOM = re.compile(
    r"(CUDA|HIP|XPU|MPS).{0,40}out of memory|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED|"
    r"DefaultCPUAllocator: can't allocate memory|\bMemoryError\b|Cannot allocate memory"
)
_DISK = re.compile(r"No space left on device|Disk quota exceeded")
_ERROR_LINE = re.compile(r"(?:[A-Za-z_][\w]*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|NotFound|Failure)\b.*")

_DISK_FULL = "the disk is full"
_EVIDENCE_LINES = 40


def of_program(
    what: str, code: int, stop: Stop | None, verdict: Verdict | None, said: Sequence[str], oom_kills: int
) -> Ending:
    """Say why a program ended. `said` are the last lines it printed, `oom_kills` the kernel's during its life.

    Our own stop comes first: an exit code that we produced says nothing. Then the program's own verdict, then what its
    exit code and its last lines prove.
    """
    evidence = tuple(said)
    done = verdict is not None and verdict.reason is Reason.DONE and code == 0
    if stop is not None and not (done and stop.reason not in _FINAL_STOPS):
        return Ending(stop.reason, stop.sentence, code, evidence)
    if verdict is not None and verdict.reason in _SAYABLE and (verdict.reason is not Reason.DONE or code == 0):
        return Ending(verdict.reason, verdict.sentence, code, evidence)
    if code == 0:
        return Ending(Reason.DONE, f"the {what} finished", code, evidence)
    reason, why = _cause(code, said, oom_kills)
    return Ending(reason, f"the {what} {_how(code)}: {why}" if why else f"the {what} {_how(code)}", code, evidence)


def of_error(error: BaseException) -> Ending:
    """Say why the attempt ended by an error of the agent's own work."""
    causes = (error, error.__cause__)
    if any(isinstance(each, OSError) and each.errno in (errno.ENOSPC, errno.EDQUOT) for each in causes):
        return Ending(Reason.CRASHED, f"{_DISK_FULL}: {error}")
    reason = Reason.CRASHED
    if isinstance(error, Fenced):
        reason = Reason.SUPERSEDED
    elif isinstance(error, (StoreError, Damaged)):
        reason = Reason.STORE_ERROR
    if isinstance(error, GpujobError):
        return Ending(reason, str(error))
    # Its lines show our own code only; the values in it are redacted like everything else.
    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__)).splitlines()
    sentence = f"the agent itself failed: {type(error).__name__}: {error}"
    return Ending(reason, sentence, evidence=tuple(lines[-_EVIDENCE_LINES:]))


def read_verdict(path: Path) -> Verdict | None:
    """Read what a program left in $GPUJOB_VERDICT; None when it is not there or cannot be read."""
    try:
        return Verdict.decode(path.read_bytes())
    except (OSError, ValidationError):
        return None


def _how(code: int) -> str:
    if code < 0:
        return f"was killed by {_signal(-code)} from outside"
    # A shell reports the signal that ended its last program this way.
    if code > 128 and code - 128 in {each.value for each in signal.Signals}:
        return f"ended with exit code {code} (that is {_signal(code - 128)}, from outside)"
    return f"ended with exit code {code}"


def _cause(code: int, said: Sequence[str], oom_kills: int) -> tuple[Reason, str]:
    if line := _last(_OOM, said):
        return Reason.OOM, f"memory ran out: {line}"
    if code in (-signal.SIGKILL, 128 + signal.SIGKILL) and oom_kills > 0:
        return Reason.OOM, f"memory ran out: the kernel killed {oom_kills} process(es) for want of it meanwhile"
    if line := _last(_DISK, said):
        return Reason.CRASHED, f"{_DISK_FULL}: {line}"
    return Reason.CRASHED, _last(_ERROR_LINE, said) or next((line.strip() for line in reversed(said)), "")


def _last(pattern: re.Pattern[str], said: Sequence[str]) -> str:
    return next((line.strip() for line in reversed(said) if pattern.search(line)), "")


def _signal(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
