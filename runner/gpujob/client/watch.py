"""From what can be seen of an attempt to what it means. Silence means nothing; only evidence ends an attempt."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import ValidationError

from gpujob.checkpoints import head as heads
from gpujob.client.journal import JournalEntry
from gpujob.client.tools import Tools
from gpujob.core.errors import HostUnreachable, NotFound, StoreError
from gpujob.core.layout import AttemptKeys, JobKeys
from gpujob.core.moves import Beat, Closed, Exited, HostGone, JobEvent, TakenOver, Unreachable
from gpujob.core.records import ExitReport, Head, Heartbeat
from gpujob.core.units import show_duration
from gpujob.hosts.protocol import Presence, Rental
from gpujob.store.protocol import Store

_LONGEST_GAP = 60.0
"""As much silence is counted between two looks at most: a clock that jumps or a computer that slept proves nothing."""


@dataclass(slots=True)
class Watch:
    """Looks at one job: at its machine with every call, into the store not more often than the agent beats.

    It remembers for how long it has itself found both silent, so it is worth keeping.
    """

    tools: Tools
    _next_read: float = field(default=0.0, init=False)
    _silence: float = field(default=0.0, init=False)
    _silent_at: float | None = field(default=None, init=False)

    def look(self, entry: JournalEntry) -> list[JobEvent]:
        """Give the news, oldest first. Raises StoreError when the store is needed and does not answer."""
        rental = entry.rentals.get(entry.job.host or "") if entry.job.running else None
        if rental is None:
            return self._from_afar(entry) if self._time_to_read() else []
        presence = self.tools.host(rental).look(rental)
        if presence is Presence.UNREACHABLE:
            return self._unreachable(entry)
        self._hear()
        try:
            if presence is Presence.HERE and self.tools.runtime(rental).alive(rental.root, entry.job.attempt):
                return self._alive(entry) if self._time_to_read() else []
            return self._dead(entry, rental, presence)
        except HostUnreachable:
            return self._unreachable(entry)

    def _alive(self, entry: JournalEntry) -> list[JobEvent]:
        job, now = entry.job, self.tools.clock()
        news: list[JobEvent] = self._new_beat(entry, job.attempt)
        head = heads.read(self.tools.store, job.id)
        if head.attempt > job.attempt:
            return [*news, TakenOver(now, head.attempt)]
        # The report is written a moment before the agent ends. Its end is waited for, but not for ever.
        report = self._report(job.attempt)
        if report is not None and now > report.at + entry.policy.stop_patience:
            news.append(Exited(now, report))
        return news

    def _dead(self, entry: JournalEntry, rental: Rental, presence: Presence) -> list[JobEvent]:
        """Say how an attempt ended whose agent is seen not to run; its report, if any, was written before that."""
        job, now = entry.job, self.tools.clock()
        news: list[JobEvent] = self._new_beat(entry, job.attempt)
        report = self._report(job.attempt)
        if report is not None:
            return [*news, Exited(now, report)]
        head = heads.read(self.tools.store, job.id)
        if head.outcome is not None or head.attempt > job.attempt:
            return [*news, *self._from_head(head, entry)]
        here = presence is Presence.HERE
        said = self.tools.runtime(rental).last_words(rental.root, job.attempt) if here else ""
        return [*news, HostGone(now, job.attempt, _evidence(job.attempt, rental, here, said), machine_here=here)]

    def _unreachable(self, entry: JournalEntry) -> list[JobEvent]:
        """Ask the store about a machine that does not answer."""
        job, now = entry.job, self.tools.clock()
        if not self._time_to_read():
            return []
        try:
            news = self._new_beat(entry, job.attempt)
            report = self._report(job.attempt)
            head = heads.read(self.tools.store, job.id)
        except StoreError:
            # Neither answers: more likely than not it is this computer that has no network.
            return [Unreachable(now)]
        if report is not None:
            return [*news, Exited(now, report)]
        if head.outcome is not None or head.attempt > job.attempt:
            return [*news, *self._from_head(head, entry)]
        if news:
            self._hear()
        return news or self._silent(entry)

    def _silent(self, entry: JournalEntry) -> list[JobEvent]:
        """Both the machine and the heartbeat are silent; after long enough, while the store answers, that is proof."""
        job, now = entry.job, self.tools.clock()
        if self._silent_at is not None:
            longest = max(_LONGEST_GAP, 2 * self.tools.settings.poll_seconds, 2 * self.tools.settings.beat_seconds)
            self._silence += min(max(now - self._silent_at, 0.0), longest)
        self._silent_at = now
        if self._silence < entry.policy.lost_after:
            return [Unreachable(now)]
        evidence = f"neither {job.host} nor a heartbeat was seen for {show_duration(self._silence)}"
        return [HostGone(now, job.attempt, evidence)]

    def _hear(self) -> None:
        self._silence, self._silent_at = 0.0, None

    def _from_afar(self, entry: JournalEntry) -> list[JobEvent]:
        """Look at a job that another client drives."""
        head = heads.read(self.tools.store, entry.job.id)
        news = self._from_head(head, entry)
        report = self._report(head.attempt)
        if head.outcome is None and report is not None and head.lease is None:
            news.append(Exited(self.tools.clock(), report))
        return news

    def _from_head(self, head: Head, entry: JournalEntry) -> list[JobEvent]:
        now = self.tools.clock()
        if head.outcome is not None:
            report = self._report(head.attempt)
            said = report.sentence if report is not None and report.reason is head.outcome else ""
            return [Closed(now, head.outcome, said, head.newest.step if head.newest else 0)]
        beat = self._new_beat(entry, head.attempt)
        return [TakenOver(now, head.attempt), *beat] if head.attempt > entry.job.attempt else []

    def _new_beat(self, entry: JournalEntry, attempt: int) -> list[JobEvent]:
        beat = read_beat(self.tools.store, entry.job.id, attempt)
        return [] if beat is None or beat == entry.beat else [Beat(self.tools.clock(), beat)]

    def _report(self, attempt: int) -> ExitReport | None:
        return read_report(self.tools.store, self.tools.plan.job_id, attempt)

    def _time_to_read(self) -> bool:
        now = self.tools.clock()
        # A clock set back must not stop the reading for as long as it was set back.
        if 0 < self._next_read - now <= self.tools.settings.beat_seconds:
            return False
        self._next_read = now + self.tools.settings.beat_seconds
        return True


def read_beat(store: Store, job_id: str, attempt: int) -> Heartbeat | None:
    """Read an attempt's newest heartbeat; None when there is none (or none that can be read) yet."""
    try:
        return Heartbeat.decode(store.get(_keys(job_id, attempt).beat))
    except (NotFound, ValidationError):
        return None


def read_report(store: Store, job_id: str, attempt: int) -> ExitReport | None:
    """Read how an attempt ended; None when it left no report (or none that can be read)."""
    try:
        return ExitReport.decode(store.get(_keys(job_id, attempt).exit))
    except (NotFound, ValidationError):
        return None


def _evidence(attempt: int, rental: Rental, here: bool, said: str) -> str:
    if not here:
        return f"{rental.ref} is gone, with everything of attempt {attempt} on it"
    words = f" (the last its agent said: {said})" if said else ""
    return f"attempt {attempt} does not run any more and left no report: it was killed, or the machine restarted{words}"


def _keys(job_id: str, attempt: int) -> AttemptKeys:
    return JobKeys(job_id).attempt(attempt)
