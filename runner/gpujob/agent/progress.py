"""How far the child is, by its own metrics and by the checkpoints it leaves."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpujob.agent.clock import Clock
from gpujob.agent.tail import Tail

_MOST = 1 << 20


class Progress:
    """The newest step, loss and length of the training.

    `step_at` is when the reported step last grew (monotonic), `checkpoint_at` when a newer checkpoint appeared, if
    ever.
    """

    def __init__(self, metrics: Path, clock: Clock) -> None:
        self._tail, self._clock = Tail(metrics, _MOST), clock
        self.step = 0
        self.total_steps: int | None = None
        self.loss: float | None = None
        self.step_at: float | None = None
        self.checkpoint_at: float | None = None
        self._reported = self._checkpoint = 0

    @property
    def finished(self) -> bool:
        """Say whether the last step is done: what follows is evaluation and export, and makes no step."""
        return self.total_steps is not None and self.step >= self.total_steps

    def read(self) -> None:
        """Take in the new lines of the metrics file; what is not a JSON object is passed over."""
        while data := self._tail.read():
            for line in _objects(data):
                self._take(line)

    def saw_checkpoint(self, step: int) -> None:
        """Take note of a checkpoint the program has made."""
        if step > self._checkpoint:
            self._checkpoint, self.checkpoint_at = step, self._clock.monotonic()
            self.step = max(self.step, step)

    def _take(self, line: dict[str, Any]) -> None:
        step, total, loss = (_number(line.get(name)) for name in ("step", "total_steps", "loss"))
        if step is not None and step > self._reported:
            self._reported, self.step_at = int(step), self._clock.monotonic()
            self.step = max(self.step, self._reported)
        if total is not None and total > 0:
            self.total_steps = int(total)
        if "loss" in line:
            self.loss = loss


def _objects(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _number(value: Any) -> float | None:
    try:
        usable = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return None
    return value if usable else None
