"""Insisting: some things must reach the store, however long it is away; but not for ever, and not against a stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gpujob.agent.clock import Clock
from gpujob.agent.ending import Stopped, told
from gpujob.agent.notices import Notices
from gpujob.agent.work import Work
from gpujob.core.errors import StoreUnavailable
from gpujob.core.units import show_duration
from gpujob.store.protocol import Progress

T = TypeVar("T")


class Patience:
    """Is over when nothing has moved for `seconds`. With `heed_stop` a signal to stop raises Stopped."""

    def __init__(
        self, notices: Notices, clock: Clock, seconds: float, pause: float, *, heed_stop: bool = False
    ) -> None:
        self._notices, self._clock, self._seconds, self._pause = notices, clock, seconds, pause
        self._heed_stop = heed_stop
        self._moved_at = clock.monotonic()

    @property
    def over(self) -> bool:
        """Say whether it is time to give up."""
        return self._clock.monotonic() - self._moved_at >= self._seconds

    def moved(self, count: int = 0) -> None:
        """Note that something moves."""
        self._moved_at = self._clock.monotonic()

    def wait(self) -> None:
        """Wait a moment, or less when there is news."""
        if self._heed_stop and self._notices.stop is not None:
            raise Stopped(told(self._notices.stop))
        self._notices.wait(self._pause)

    def insist(self, what: str, act: Callable[[Progress], T]) -> T:
        """Do `act` beside the main loop, again while the store is unavailable; raises what `act` raised last."""
        while True:
            work = Work(lambda: act(self.moved), self._notices.wake, what)
            while not work.is_done():
                if self.over:
                    raise StoreUnavailable(what, "the store", f"it has not answered for {show_duration(self._seconds)}")
                self.wait()
            try:
                return work.result()
            except StoreUnavailable:
                if self.over:
                    raise
                self.wait()
