"""The seam to whatever gives machines away, owned by the client.

Why it exists: a job must not know whether its machine is this one, a friend's, or rented from a cloud.

Contract
    idempotent  `acquire` for a job that has a machine there gives that machine, also after a client was killed
                before it could note the answer: no machine is ever paid for that nobody knows of.
    release     Returns only when it is confirmed that the machine costs nothing any more and no process of the job's
                attempts up to the given one is left on it; a machine that is gone already is released. Safe to repeat.
    look        Says UNREACHABLE whenever it cannot tell; GONE only on proof.
    errors      HostError, and nothing else.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from gpujob.core.records import Record
from gpujob.hosts.survey import Survey


class Rental(Record):
    """One machine for one job, as long as it is kept.

    `ref` names it and no other; `root` is the job's folder there; `host` the entry of the plan's hosts it came from.
    """

    ref: str
    root: str
    price_per_hour: float = 0.0
    host: int = 0


class Presence(str, Enum):
    """What can be seen of a rental."""

    HERE = "here"
    GONE = "gone"
    UNREACHABLE = "unreachable"


class Host(Protocol):
    """One entry of job.yaml's `hosts`."""

    def check(self) -> Survey:
        """Look at the machine, changing nothing; raises HostError when the job could not start there."""
        ...

    def acquire(self, job_id: str) -> Rental:
        """Get a machine for a job; raises HostError when none can be had."""
        ...

    def look(self, rental: Rental) -> Presence:
        """Say what can be seen of a rental."""
        ...

    def release(self, job_id: str, rental: Rental, last_attempt: int) -> None:
        """Give a rental back; raises HostError while that cannot be confirmed."""
        ...
