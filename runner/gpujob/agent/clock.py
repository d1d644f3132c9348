"""The two clocks of an attempt, injected so that limits are tested without waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """`now` stamps what others read (seconds since the epoch); `monotonic` measures durations."""

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
