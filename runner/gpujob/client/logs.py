"""What a job said: its log, metrics and events, out of the store, over all attempts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from pydantic import ValidationError

from gpujob.checkpoints import head as heads
from gpujob.client.journal import JournalEntry
from gpujob.core.layout import JobKeys
from gpujob.core.records import Event
from gpujob.store.protocol import Store

LOG = "log"
METRICS = "metrics"
EVENTS = "events"

T = TypeVar("T")


def read_stream(store: Store, job_id: str, attempt: int, stream: str) -> bytes:
    """Give all of one attempt's stream so far."""
    return b"".join(data for _, data in _segments(store, job_id, attempt, stream, after=""))


def attempts(store: Store, job_id: str) -> range:
    """Give the numbers of the attempts that have begun, by any client."""
    return range(1, heads.read(store, job_id).attempt + 1)


def follow(store: Store, job_id: str, over: Callable[[], bool], pause: Callable[[], None]) -> Iterator[bytes]:
    """Give the log of all attempts in order, as it grows, until `over` says that the job is; `pause` waits for more."""
    attempt, last = 1, ""
    while True:
        # Asked before reading: what was written before the end is read after it.
        ended, newest = over(), heads.read(store, job_id).attempt
        for key, data in _segments(store, job_id, attempt, LOG, after=last):
            last = key
            yield data
        if attempt < newest:
            attempt, last = attempt + 1, ""
        elif ended:
            return
        else:
            pause()


def events(store: Store | None, entry: JournalEntry) -> list[Event]:
    """Give what happened, oldest first: what this client saw and what the agents told."""
    told: list[Event] = []
    if store is not None:
        for attempt in attempts(store, entry.job.id):
            told.extend(_lines(read_stream(store, entry.job.id, attempt, EVENTS), Event.model_validate_json))
    return sorted((*entry.history, *told), key=lambda event: event.at)


def metrics(store: Store, job_id: str) -> list[dict[str, Any]]:
    """Give one record per step, in order of steps; where two attempts made a step, the later one's values stand."""
    merged: dict[int, dict[str, Any]] = {}
    for attempt in attempts(store, job_id):
        for line in _lines(read_stream(store, job_id, attempt, METRICS), json.loads):
            step = line.get("step") if isinstance(line, dict) else None
            if isinstance(step, int):
                merged.setdefault(step, {}).update(line)
    return [merged[step] for step in sorted(merged)]


def _segments(store: Store, job_id: str, attempt: int, stream: str, after: str) -> Iterator[tuple[str, bytes]]:
    prefix = JobKeys(job_id).attempt(attempt).segments(stream)
    for info in store.list(prefix):
        if info.key > after:
            yield info.key, store.get(info.key)


def _lines(data: bytes, parse: Callable[[bytes], T]) -> Iterator[T]:
    """Read one value per line; a line that was torn by a kill is passed over."""
    for line in data.splitlines():
        try:
            yield parse(line)
        except (ValueError, ValidationError):
            continue
