"""What can happen to a job (`JobEvent`) and what there is to do about it (`Action`).

Nothing here reads a clock: every event carries, in `at`, the time it was seen. All actions may be done twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from gpujob.core.reasons import Reason
from gpujob.core.records import ExitReport, Heartbeat


@dataclass(frozen=True, slots=True)
class Begin:
    """Everything of the job lies in the store."""

    at: float


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The submit ended before everything lay in the store."""

    at: float
    why: str


@dataclass(frozen=True, slots=True)
class HostReady:
    """A machine is there."""

    at: float
    host: str


@dataclass(frozen=True, slots=True)
class NoCapacity:
    """No machine could be had."""

    at: float
    why: str


@dataclass(frozen=True, slots=True)
class Shipped:
    """The machine can get the bundle."""

    at: float


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    """The attempt could not be started at all."""

    at: float
    reason: Reason
    why: str


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat nobody had seen before."""

    at: float
    beat: Heartbeat


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Neither the machine nor a new heartbeat could be seen. Says nothing about the job itself."""

    at: float


@dataclass(frozen=True, slots=True)
class Exited:
    """An attempt left its report."""

    at: float
    report: ExitReport


@dataclass(frozen=True, slots=True)
class HostGone:
    """An attempt is proven to have ended without a report. `machine_here`: the machine itself is still there."""

    at: float
    attempt: int
    evidence: str
    machine_here: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """The wait is over."""

    at: float


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """A person wants the job to end."""

    at: float


@dataclass(frozen=True, slots=True)
class Stopped:
    """No process of this client's attempts is left."""

    at: float


@dataclass(frozen=True, slots=True)
class TakenOver:
    """The head names an attempt that this client did not start."""

    at: float
    attempt: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The head says that the job is over."""

    at: float
    outcome: Reason
    sentence: str = ""
    durable_step: int = 0


@dataclass(frozen=True, slots=True)
class Released:
    """A machine is confirmed to be released."""

    at: float
    host: str


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome of a terminal job stands in the store and its secrets are gone."""

    at: float


JobEvent = Union[
    Begin,
    Abandoned,
    HostReady,
    NoCapacity,
    Shipped,
    LaunchFailed,
    Beat,
    Unreachable,
    Exited,
    HostGone,
    Due,
    CancelRequested,
    Stopped,
    TakenOver,
    Closed,
    Released,
    Settled,
]


@dataclass(frozen=True, slots=True)
class Acquire:
    """Get a machine: `host` again while it is there, else another."""

    host: str | None


@dataclass(frozen=True, slots=True)
class Ship:
    """See to it that the machine can get the bundle, and that the job is still ours to drive."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start an attempt, unless it has been started already."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Watch:
    """Look for news."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until a time."""

    until: float


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Write into the head that the job is to end."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop every process of this client's attempts by force, but not before a time."""

    not_before: float


@dataclass(frozen=True, slots=True)
class Release:
    """Give a machine back, with whatever is left on it of the attempts up to one. A later one runs elsewhere."""

    host: str
    last_attempt: int


@dataclass(frozen=True, slots=True)
class Settle:
    """Write the outcome into the head and remove the job's secrets."""

    outcome: Reason


Action = Union[Acquire, Ship, Start, Watch, Wait, Interrupt, Stop, Release, Settle]
