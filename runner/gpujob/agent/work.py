"""Calls that run beside the main loop, so that it never blocks on a network."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, NoReturn, TypeVar

T = TypeVar("T")

_NICE = 10


class Work(Generic[T]):
    """One call in a thread of its own. `wake` is called when it has ended, whichever way."""

    def __init__(self, act: Callable[[], T], wake: Callable[[], None], name: str, *, gentle: bool = False) -> None:
        self._act, self._wake, self._gentle = act, wake, gentle
        self._outcome: Callable[[], T] | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def is_done(self) -> bool:
        """Say whether it has ended."""
        return self._ended.is_set()

    def result(self) -> T:
        """Wait for the end; give what the call gave or raise what it raised."""
        self._ended.wait()
        assert self._outcome is not None
        return self._outcome()

    def _run(self) -> None:
        if self._gentle:
            be_gentle()
        try:
            value = self._act()
            self._outcome = lambda: value
        except BaseException as error:
            failure = error
            self._outcome = lambda: _throw(failure)
        self._ended.set()
        self._wake()


class Repeated:
    """A call made again and again in a thread of its own; its first exception ends it and waits in `failure`."""

    def __init__(self, act: Callable[[], object], seconds: float, wake: Callable[[], None], name: str) -> None:
        self._act, self._seconds, self._wake = act, seconds, wake
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self, patience: float) -> None:
        """Make no further call; wait so long for the one under way."""
        self._stop.set()
        self._thread.join(patience)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._act()
                self._stop.wait(self._seconds)
        except BaseException as error:
            self.failure = error
            self._wake()


def be_gentle() -> None:
    """Let the training go first: lower this thread's priority, where threads have one of their own."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def _throw(error: BaseException) -> NoReturn:
    raise error
