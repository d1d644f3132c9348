"""A job as its client knows it, and how much trouble it may have."""

from __future__ import annotations

from enum import Enum

from gpujob.core.reasons import Reason
from gpujob.core.records import Record
from gpujob.core.spec import JobSpec


class State(str, Enum):
    """Where a job stands."""

    PLANNED = "PLANNED"
    ACQUIRING = "ACQUIRING"
    SHIPPING = "SHIPPING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    UNREACHABLE = "UNREACHABLE"
    BACKOFF = "BACKOFF"
    STOPPING = "STOPPING"
    FOLLOWING = "FOLLOWING"
    """Another client drives the job now; this one only watches it."""
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    def __str__(self) -> str:
        return self.value


TERMINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})
"""The job is over; what may be left is to release machines."""

ATTEMPTING = frozenset({State.STARTING, State.RUNNING, State.UNREACHABLE})
"""An attempt of this client is, or may be, running."""


class Job(Record):
    """The state of one job. Whatever is to be done next follows from it alone.

    `attempt` is the last one this client started; `running` says that its end has not been seen yet, `elapsed` and
    `cost` what it had spent when last heard of. `spent_*` cover this client's ended attempts. `failures` and
    `preemptions` count the retries granted; `barren` the attempts in a row without a newer durable checkpoint;
    `shortages` the refusals of a machine in a row, `short_since` when the first of them was. `due` is when BACKOFF or
    the patience of STOPPING ends. `host` is the machine in use, `unreleased` those given up whose release is not
    confirmed yet. `following` is another client's attempt. `settled` says that a terminal job's outcome stands in the
    store and its secrets are gone.
    """

    id: str
    state: State = State.PLANNED
    attempt: int = 0
    running: bool = False
    reason: Reason | None = None
    sentence: str = ""
    failures: int = 0
    preemptions: int = 0
    barren: int = 0
    shortages: int = 0
    short_since: float | None = None
    step: int = 0
    durable_step: int = 0
    durable_step_at_start: int = 0
    elapsed: float = 0.0
    cost: float = 0.0
    spent_seconds: float = 0.0
    spent_cost: float = 0.0
    due: float | None = None
    unreachable_since: float | None = None
    ended_at: float | None = None
    host: str | None = None
    unreleased: tuple[str, ...] = ()
    following: int | None = None
    settled: bool = False

    @property
    def terminal(self) -> bool:
        """Say whether the job is over."""
        return self.state in TERMINAL

    @property
    def active(self) -> bool:
        """Say whether a supervisor has something to do or to wait for."""
        idle = self.settled or self.state is State.PLANNED
        return not idle or bool(self.unreleased)


class Policy(Record):
    """How much trouble a job may have, and how long is waited for what. Durations in seconds; None is no limit."""

    max_failures: int
    max_preemptions: int | None
    max_without_progress: int
    max_seconds: float | None
    max_cost: float | None
    stop_patience: float
    """From a cancel until the agent, which should have ended by then, is stopped by force."""
    backoff_first: float = 1.0
    backoff_longest: float = 300.0
    lost_after: float = 900.0
    """An unreachable machine whose heartbeat in the store is as old as this counts as gone."""
    wait: float = 86400.0
    """Longest time without any machine to be had."""

    @classmethod
    def of(cls, spec: JobSpec) -> Policy:
        """Take the policy from a spec."""
        unlimited = spec.recovery.max_preemptions == "unlimited"
        return cls(
            max_failures=spec.recovery.max_failures,
            max_preemptions=None if unlimited else int(spec.recovery.max_preemptions),
            max_without_progress=spec.recovery.max_without_progress,
            max_seconds=spec.limits.duration,
            max_cost=spec.limits.cost,
            # After the child's grace the agent still has to upload the last checkpoint and its report.
            stop_patience=spec.limits.grace + 60.0,
            lost_after=spec.recovery.lost_after,
            wait=spec.recovery.wait,
        )
