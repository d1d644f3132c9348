"""Looking at a job again and again, until it ends or the person has seen enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from gpujob.cli.call import Call
from gpujob.cli.exits import Exit, of_outcome
from gpujob.cli.history import History
from gpujob.cli.tail import Tail
from gpujob.cli.views import view_of
from gpujob.core.errors import StoreError
from gpujob.core.job import TERMINAL
from gpujob.core.reasons import Reason
from gpujob.core.records import Event

if TYPE_CHECKING:
    from gpujob.client.journal import JournalEntry
    from gpujob.client.status import Status

_RELEASE_PATIENCE = 15.0
"""Seconds that a machine may take to be released after a job's end before that is called uncertain."""

_WAKE_EVERY = 15.0
"""Seconds between two looks whether a supervisor runs."""


class Look(NamedTuple):
    """How a job stands at one moment, and what came since the look before."""

    at: float
    status: Status
    events: Sequence[Event] = ()
    metrics: Sequence[Mapping[str, Any]] = ()


def follow(call: Call, job_id: str, looks: Iterable[Look]) -> Exit:
    """Show looks until there are no more; give the outcome's code, or INTERRUPTED when Ctrl-C detached."""
    history, last, view, detached = History(), None, view_of(call.output), False
    try:
        for look in looks:
            last, news = look.status, _without_ending(call, look)
            history = grown(history, look).with_events(news)
            view.show(last, news, history, look.at)
    except KeyboardInterrupt:
        detached = True
    finally:
        view.close()
    if detached:
        call.output.note(f"Detached: the job goes on. gpujob logs {job_id} -f, gpujob cancel {job_id}")
        return Exit.INTERRUPTED
    assert last is not None
    call.output.say(last.sentence)
    return outcome(last.reason)


def outcome(reason: Reason | None) -> Exit:
    """Give the exit code of a job that is over."""
    assert reason is not None
    return of_outcome(reason)


def grown(history: History, look: Look) -> History:
    """Take what one look says about steps and losses into the history."""
    status = look.status
    if status.step and status.phase:
        history = history.with_step(look.at, status.attempt, status.step)
    if look.metrics:
        history = history.with_metrics(look.metrics)
    elif status.loss is not None and status.step not in history.losses:
        history = history.with_metrics([{"step": status.step, "loss": status.loss}])
    return history


def _without_ending(call: Call, look: Look) -> list[Event]:
    """Leave out the event that says what people are told once more at the very end."""
    over = look.status.state in TERMINAL and not call.output.json
    return [event for event in look.events if not (over and look.status.sentence.startswith(event.text))]


def looks(call: Call, job_id: str) -> Iterator[Look]:
    """Look at a job every poll, until it has ended and its machine is released (or that takes too long)."""
    from gpujob.client.logs import EVENTS, METRICS
    from gpujob.client.status import status

    store = call.store(call.journal.read(job_id))
    events, metrics = _Events(Tail(store, job_id, EVENTS)), Tail(store, job_id, METRICS)
    for entry, now in polls(call, job_id):
        stands = status(entry, store, now)
        lines: list[dict[str, Any]] = []
        with suppress(StoreError):
            lines = metrics.read(stands.attempt)
        yield Look(now, stands, events.new(entry, stands.attempt), lines)


def polls(call: Call, job_id: str) -> Iterator[tuple[JournalEntry, float]]:
    """Read a job's entry every poll, seeing to it that somebody drives it.

    The entry of a job that is over comes once, as the last one: when its machine is released, or that takes too long.
    """
    woken, over_since = float("-inf"), float("inf")
    while True:
        now = call.now()
        if now - woken >= _WAKE_EVERY:
            call.wake()
            woken = now
        entry = call.journal.read(job_id)
        if not entry.job.terminal:
            yield entry, now
        elif not entry.job.active or now - over_since >= _RELEASE_PATIENCE:
            yield entry, now
            return
        else:
            over_since = min(over_since, now)
        call.sleep(call.settings.poll_seconds)


class _Events:
    """What happened since the last question: what this client noted, and what the agents told."""

    def __init__(self, tail: Tail) -> None:
        self._tail, self._seen = tail, set[Event]()

    def new(self, entry: JournalEntry, attempt: int) -> list[Event]:
        told: list[Event] = []
        with suppress(StoreError):
            told = [event for value in self._tail.read(attempt) if (event := _event(value))]
        news = sorted((each for each in (*entry.history, *told) if each not in self._seen), key=lambda each: each.at)
        self._seen.update(news)
        return news


def _event(value: dict[str, Any]) -> Event | None:
    try:
        return Event.model_validate(value)
    except ValidationError:
        return None
