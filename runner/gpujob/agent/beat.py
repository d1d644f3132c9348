"""Saying that the attempt lives, and hearing whether it still should."""

from __future__ import annotations

from collections.abc import Callable

from gpujob.agent.clock import Clock
from gpujob.checkpoints import lease
from gpujob.checkpoints.lease import Held
from gpujob.core.errors import Damaged, Fenced, StoreError
from gpujob.core.layout import JobKeys
from gpujob.core.records import Heartbeat, Intent


class Beat:
    """One `round` reads the head and writes the heartbeat. What it heard is kept for the main loop.

    `contact_at` is when the store last answered (monotonic), `failure` why it did not since.
    """

    def __init__(self, held: Held, state: Callable[[], Heartbeat], clock: Clock, wake: Callable[[], None]) -> None:
        self._held, self._state, self._clock, self._wake = held, state, clock, wake
        self._key = JobKeys(held.job_id).attempt(held.attempt).beat
        self.contact_at = clock.monotonic()
        self.intent = Intent.RUN
        self.fenced: Fenced | None = None
        self.failure: Exception | None = None

    def once(self) -> None:
        """Read the head and write the heartbeat; raises Fenced, StoreError or Damaged."""
        self.intent = lease.check(self._held).intent
        self._held.store.put(self._key, self._state().encode())
        self.contact_at, self.failure = self._clock.monotonic(), None

    def round(self) -> None:
        """Beat once; a store that does not answer is noted and tried again with the next round."""
        if self.fenced:
            return
        try:
            self.once()
        except Fenced as error:
            self.fenced = error
        except (StoreError, Damaged) as error:
            self.failure = error
        if self.fenced or self.intent is not Intent.RUN:
            self._wake()
