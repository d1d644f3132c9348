"""What one attempt knows of itself, and how it watches over whatever it is waiting for."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from gpujob.agent import limits
from gpujob.agent.beat import Beat
from gpujob.agent.clock import Clock
from gpujob.agent.ending import Stop, told
from gpujob.agent.events import Events
from gpujob.agent.limits import Bill, Signs
from gpujob.agent.notices import Notices
from gpujob.agent.output import Output
from gpujob.agent.patience import Patience
from gpujob.agent.progress import Progress
from gpujob.agent.redact import Redactor
from gpujob.agent.streams import Streams
from gpujob.agent.sync import Durable, Sync
from gpujob.agent.work import Repeated
from gpujob.checkpoints import publish
from gpujob.checkpoints.lease import Held
from gpujob.core.errors import StoreError
from gpujob.core.layout import HostPaths, JobKeys
from gpujob.core.plan import Plan
from gpujob.core.reasons import Reason
from gpujob.core.records import CheckpointRef, Head, Heartbeat, Intent, Launch, Phase
from gpujob.core.spec import Limits
from gpujob.core.units import show_duration
from gpujob.store import protocol
from gpujob.store.protocol import Store

_LONGEST_TICK = 1.0
_TICKS_PER_BEAT = 5
_STORE_PATIENCE = 900.0
"""Least time the store may be away before the attempt gives up; a larger limits.stall wins."""


class Attempt:
    """The state of one attempt, owned by the main thread. Made cheaply; `begin` needs the lease."""

    def __init__(
        self, launch: Launch, store: Store, machine: Mapping[str, str], clock: Clock, notices: Notices
    ) -> None:
        self.launch, self.store, self.machine, self.clock, self.notices = launch, store, machine, clock, notices
        self.started = clock.monotonic()
        self.holder = f"{socket.gethostname()}-{secrets.token_hex(6)}"
        self.host = HostPaths(Path(launch.root))
        self.paths = self.host.attempt(launch.attempt)
        self.keys = JobKeys(launch.job_id).attempt(launch.attempt)
        self.redactor = Redactor.of(launch)
        self.events = Events(self.paths.events, launch.attempt, self.redactor, clock)
        self.progress = Progress(self.paths.metrics, clock)
        self.tick = min(_LONGEST_TICK, launch.beat_seconds / _TICKS_PER_BEAT)
        self.limits = Limits()
        self.bill = Bill(price=launch.price_per_hour)
        self.phase = Phase.RESTORING
        self.durable = Durable()
        self.resumed_step = 0
        self.held: Held | None = None
        self.plan: Plan | None = None
        self.beat: Beat | None = None
        self.sync: Sync | None = None
        self.output: Output | None = None
        self.streams = Streams(
            store,
            self.keys,
            {"log": self.paths.log, "metrics": self.paths.metrics, "events": self.paths.events},
            self.redactor,
        )
        self._committed: tuple[CheckpointRef, ...] = ()
        self._repeated: list[Repeated] = []

    @property
    def elapsed(self) -> float:
        """Seconds since the attempt began."""
        return self.clock.monotonic() - self.started

    def patience(self, seconds: float | None = None, *, heed_stop: bool = False) -> Patience:
        """Give a patience with the store, by default the long one."""
        seconds = self._store_patience if seconds is None else seconds
        return Patience(self.notices, self.clock, seconds, self.tick, heed_stop=heed_stop)

    def begin(self, held: Held, plan: Plan, head: Head) -> None:
        """Start beating, and shipping what is said."""
        self.held, self.plan, self.limits = held, plan, plan.spec.limits
        self.bill = Bill(head.spent_seconds, head.spent_cost, self.launch.price_per_hour)
        self._committed = head.checkpoints
        self._know(head.newest.step if head.newest else 0)
        self.beat = Beat(held, self._heartbeat, self.clock, self.notices.wake)
        for act, name in ((self.beat.round, "beat"), (self._ship, "streams")):
            self._repeated.append(Repeated(act, self.launch.beat_seconds, self.notices.wake, name))

    def resume_from(self, step: int) -> None:
        """Count from the restored step (0 = from the start), and look out for newer checkpoints."""
        self._know(step)
        self.resumed_step = step
        self.sync = Sync(
            self.paths.checkpoints,
            self.paths.staging,
            self.durable,
            self._publish,
            clock=self.clock,
            wake=self.notices.wake,
            pause=self.launch.beat_seconds,
        )

    def watch(self, done: Callable[[], bool]) -> Stop | None:
        """Attend to everything until `done`; give the reason to stop, if there is one before or by then."""
        while not done():
            self.attend()
            if stop := self._reason():
                return stop
            self.notices.wait(self.tick)
        return self._told()

    def after(self, seconds: float) -> Callable[[], bool]:
        """Give a condition that becomes true in so many seconds."""
        due = self.clock.monotonic() + seconds
        return lambda: self.clock.monotonic() >= due

    def attend(self) -> None:
        """Do what is due now; never blocks on the store."""
        for each in self._repeated:
            if each.failure:
                raise each.failure
        self.progress.read()
        if self.sync is not None:
            self.sync.tick()
            self.note_sync()

    def note_sync(self) -> None:
        """Take over what the sync has found and made durable."""
        assert self.sync is not None
        self.durable = self.sync.durable
        self.progress.saw_checkpoint(self.sync.newest)

    @property
    def fenced(self) -> Exception | None:
        """Why another attempt holds the job, if one does."""
        beaten = self.beat.fenced if self.beat is not None else None
        return beaten or (self.sync.fenced if self.sync is not None else None)

    def end_threads(self) -> None:
        """Beat and ship no more."""
        for each in self._repeated:
            each.stop(self.tick)

    def _reason(self) -> Stop | None:
        return (
            self._told() or limits.exceeded(self.limits, self.bill, self.elapsed, self._signs()) or self._store_away()
        )

    def _told(self) -> Stop | None:
        if self.fenced is not None:
            return Stop(Reason.SUPERSEDED, str(self.fenced), grace=0.0)
        if self.beat is not None and self.beat.intent is not Intent.RUN:
            return cancelled()
        return told(self.notices.stop) if self.notices.stop is not None else None

    def _store_away(self) -> Stop | None:
        now, patience = self.clock.monotonic(), self._store_patience
        if self.beat is not None and now - self.beat.contact_at > patience:
            why = f"the store has not answered for {show_duration(patience)}: {self.beat.failure or 'no answer at all'}"
            return Stop(Reason.STORE_ERROR, why)
        if self.sync is not None and self.sync.failing_since is not None and now - self.sync.failing_since > patience:
            why = f"no checkpoint could be saved for {show_duration(patience)}: {self.sync.failure}"
            return Stop(Reason.STORE_ERROR, why)
        return None

    @property
    def _store_patience(self) -> float:
        return max(self.limits.stall, _STORE_PATIENCE)

    def _signs(self) -> Signs:
        """Say when the training last moved. Our own trainer reports every step, so only its steps count."""
        progress, other = self.progress, None
        may_be_silent = self.plan is not None and self.plan.command is not None
        if self.output is not None and (may_be_silent or progress.finished):
            other = max(filter(None, (self.output.line_at, progress.checkpoint_at)), default=None)
        return Signs(self._since_start(progress.step_at), self._since_start(other), progress.finished)

    def _since_start(self, moment: float | None) -> float | None:
        return None if moment is None else moment - self.started

    def _know(self, step: int) -> None:
        made_at = next((ref.committed_at for ref in self._committed if ref.step == step), None)
        self.durable = Durable(step, made_at)

    def _publish(self, folder: Path, step: int, made_at: float, progress: protocol.Progress) -> object:
        assert self.held is not None
        assert self.plan is not None
        keep = self.plan.spec.checkpoint.keep

        def say(text: str) -> None:
            self.events.say("prune", text)

        return publish.publish(self.held, folder, step, made_at, keep, progress=progress, say=say)

    def _ship(self) -> None:
        # The heartbeat tells whether the store answers; what is not sent yet is sent with the next round.
        with suppress(StoreError):
            self.streams.ship()

    def _heartbeat(self) -> Heartbeat:
        assert self.held is not None
        elapsed = self.elapsed
        return Heartbeat(
            attempt=self.launch.attempt,
            generation=self.held.generation,
            holder=self.holder,
            at=self.clock.now(),
            phase=self.phase,
            elapsed=elapsed,
            cost=self.bill.own_cost(elapsed),
            resumed_step=self.resumed_step,
            step=max(self.progress.step, self.resumed_step),
            total_steps=self.progress.total_steps,
            loss=self.progress.loss,
            durable_step=self.durable.step,
            durable_at=self.durable.made_at,
        )


def cancelled() -> Stop:
    """Say that a person ended the attempt."""
    return Stop(Reason.CANCELLED, "a person cancelled the job")
