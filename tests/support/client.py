"""What the tests of `client` are made of: a plan, an entry, a clock, and peers that do as they are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpujob.client.journal import JournalEntry
from gpujob.client.secrets import JobSecrets
from gpujob.client.settings import Settings
from gpujob.client.tools import Tools
from gpujob.core.errors import HostError
from gpujob.core.job import Job
from gpujob.core.layout import HomePaths
from gpujob.core.plan import Plan
from gpujob.core.reasons import Reason
from gpujob.core.records import ExitReport, Heartbeat, Launch, Phase
from gpujob.core.spec import JobSpec
from gpujob.hosts.protocol import Presence, Rental
from gpujob.runtime.protocol import Cargo
from gpujob.store.protocol import Progress, Store

JOB_ID = "night-shift-abc234"


def make_plan(job_id: str = JOB_ID, name: str = "night-shift", store: str = "memory://", **spec: Any) -> Plan:
    """Give a plan that runs any program."""
    parsed = JobSpec.model_validate({"name": name, "run": "true", **spec})
    return Plan(
        job_id=job_id,
        name=name,
        spec=parsed,
        store=store,
        hosts=parsed.hosts,
        command=parsed.run,
        created_at=1000.0,
        local_parts={},
    )


def make_entry(plan: Plan | None = None, **job: Any) -> JournalEntry:
    """Give the entry of a job in the state the keywords say."""
    plan = plan or make_plan()
    return JournalEntry(plan=plan, job=Job(id=plan.job_id, **job))


def make_settings(folder: Path, environ: Mapping[str, str] | None = None, poll: float = 0.05) -> Settings:
    """Give settings of a home below `folder`."""
    return Settings(HomePaths(folder / "home"), poll_seconds=poll, beat_seconds=poll, environ=environ or {})


def make_beat(attempt: int = 1, at: float = 0.0, **changes: Any) -> Heartbeat:
    """Give a heartbeat."""
    base = {"generation": attempt, "holder": f"holder-{attempt}", "phase": Phase.TRAINING, "elapsed": 0.0}
    return Heartbeat(**{**base, **changes, "attempt": attempt, "at": at})


def make_report(attempt: int = 1, reason: Reason = Reason.DONE, **changes: Any) -> ExitReport:
    """Give an exit report."""
    base = {"generation": attempt, "at": 0.0, "sentence": f"it ended with {reason}"}
    return ExitReport(**{**base, **changes, "attempt": attempt, "reason": reason})


@dataclass
class Clock:
    """A clock that moves when it is told to."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> bool:
        """Let the time pass at once."""
        self.now += seconds
        return False


@dataclass
class FakeHost:
    """Rents out names; `presence` is what is seen of those that are not in `gone`."""

    presence: Presence = Presence.HERE
    gone: set[str] = field(default_factory=set)
    refuses: str = ""
    rented: list[Rental] = field(default_factory=list)
    released: list[tuple[str, int]] = field(default_factory=list)
    stuck: str = ""

    def acquire(self, job_id: str) -> Rental:
        if self.refuses:
            raise HostError("rent", "a machine", self.refuses)
        self.rented.append(Rental(ref=f"machine-{len(self.rented) + 1}", root="/nowhere", price_per_hour=2.0))
        return self.rented[-1]

    def look(self, rental: Rental) -> Presence:
        return Presence.GONE if rental.ref in self.gone else self.presence

    def release(self, job_id: str, rental: Rental, last_attempt: int) -> None:
        if self.stuck:
            raise HostError("release", rental.ref, self.stuck)
        self.released.append((rental.ref, last_attempt))


@dataclass
class FakeRuntime:
    """Notes what it is asked for; an agent is alive while `living` names its attempt."""

    living: set[int] = field(default_factory=set)
    cargoes: list[Cargo] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    stops: list[tuple[int, float]] = field(default_factory=list)
    refuses: str = ""

    def ship(self, cargo: Cargo, progress: Progress | None = None) -> None:
        self.cargoes.append(cargo)

    def start(self, launch: Launch) -> None:
        if self.refuses:
            raise HostError("start", "the agent", self.refuses)
        if launch.attempt not in [each.attempt for each in self.launches]:
            self.launches.append(launch)
            self.living.add(launch.attempt)

    said: str = ""

    def last_words(self, root: str, attempt: int) -> str:
        return self.said

    def alive(self, root: str, attempt: int) -> bool:
        return attempt in self.living

    def stop(self, job_id: str, root: str, last_attempt: int, grace: float) -> None:
        self.stops.append((last_attempt, grace))
        self.living.clear()


@dataclass
class Bench:
    """One job's tools, all of them fakes but the store."""

    settings: Settings
    store: Store
    plan: Plan
    clock: Clock = field(default_factory=Clock)
    host: FakeHost = field(default_factory=FakeHost)
    runtime: FakeRuntime = field(default_factory=FakeRuntime)
    secrets: JobSecrets = field(default_factory=JobSecrets)

    def tools(self, *_: Any) -> Tools:
        """Give the tools."""
        return Tools(self.settings, self.plan, self.store, (self.host,), (self.runtime,), self.secrets, self.clock)
