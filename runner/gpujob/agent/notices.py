"""What the agent is told while it waits: signals, and the end of something it started."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

_TOLD_TO_STOP = (signal.SIGTERM, signal.SIGINT)


class Notices:
    """A wait that ends early when a signal arrives, a child ends, or another thread calls `wake`.

    Handlers only note the signal. `stop` is the first signal that asked for an end. Used by the main thread.
    """

    def __init__(self) -> None:
        self.stop: signal.Signals | None = None
        self._reader, self._writer = os.pipe()
        for end in (self._reader, self._writer):
            os.set_blocking(end, False)
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Notices:
        # A byte for every signal that has a handler; the child's end is one as well.
        self._wakeup_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in (*_TOLD_TO_STOP, signal.SIGCHLD):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        # The pipe stays open: a thread that outlives the attempt may still call wake().

    def wake(self) -> None:
        """End the main thread's wait; callable from any thread."""
        with suppress(BlockingIOError):
            os.write(self._writer, b".")

    def wait(self, seconds: float) -> None:
        """Wait, at most so long."""
        ready, _, _ = select.select([self._reader], [], [], max(0.0, seconds))
        if ready:
            with suppress(BlockingIOError):
                while os.read(self._reader, 4096):
                    pass

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number in _TOLD_TO_STOP and self.stop is None:
            self.stop = signal.Signals(number)
