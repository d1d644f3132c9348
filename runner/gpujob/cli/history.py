"""What a follower has seen of a job so far: enough for a rate, a loss curve and the events worth keeping in sight."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from gpujob.core.job import State
from gpujob.core.records import Event

_MOST_SAMPLES = 600
_MOST_EVENTS = 6
_PASSING = frozenset(map(str, (State.ACQUIRING, State.SHIPPING, State.STARTING)))
_WINDOW = 300.0
"""Seconds over which the rate is taken: long enough to be steady, short enough to follow another machine."""


class Sample(NamedTuple):
    """A step, when it was first seen, and the attempt that made it."""

    at: float
    attempt: int
    step: int


@dataclass(frozen=True, slots=True)
class History:
    """Immutable: every look at the job gives a new one.

    `losses` are by step; a later attempt's stands in place of an earlier one's.
    """

    samples: tuple[Sample, ...] = ()
    losses: Mapping[int, float] = field(default_factory=dict)
    learning_rate: float | None = None
    events: tuple[Event, ...] = ()

    def with_step(self, at: float, attempt: int, step: int) -> History:
        """Add a step; one that was seen already changes nothing."""
        if self.samples and self.samples[-1][1:] == (attempt, step):
            return self
        return replace(self, samples=(*self.samples, Sample(at, attempt, step))[-_MOST_SAMPLES:])

    def with_metrics(self, lines: Iterable[Mapping[str, Any]]) -> History:
        """Add lines of the metrics log; what is not a number is passed over."""
        losses, learning_rate = dict(self.losses), self.learning_rate
        for line in lines:
            step, loss, rate = line.get("step"), _finite(line.get("loss")), _finite(line.get("learning_rate"))
            if isinstance(step, int) and loss is not None:
                losses[step] = loss
            learning_rate = learning_rate if rate is None else rate
        return replace(self, losses=losses, learning_rate=learning_rate)

    def with_events(self, events: Sequence[Event]) -> History:
        """Add events; the newest few stay in sight, and what the headline says anyway does not push them out."""
        telling = (event for event in events if event.kind not in _PASSING)
        return replace(self, events=(*self.events, *telling)[-_MOST_EVENTS:])

    def rate(self) -> float | None:
        """Give the steps per second of the newest attempt, None while that is unknown."""
        if not self.samples:
            return None
        last = self.samples[-1]
        same = [each for each in self.samples if each.attempt == last.attempt and each.at >= last.at - _WINDOW]
        seconds, steps = last.at - same[0].at, last.step - same[0].step
        return steps / seconds if seconds > 0 and steps > 0 else None

    def seconds_left(self, total_steps: int | None) -> float | None:
        """Give the time to the last step at the present rate, None while that is unknown."""
        rate = self.rate()
        return max(0, total_steps - self.samples[-1].step) / rate if rate and total_steps else None

    def curve(self) -> list[float]:
        """Give the losses in order of steps."""
        return [self.losses[step] for step in sorted(self.losses)]


def _finite(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None
