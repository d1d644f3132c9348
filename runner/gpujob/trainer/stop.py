"""SIGTERM = save now and exit: the handler sets a flag, the training looks at it after every step."""

from __future__ import annotations

import signal
from types import FrameType

from gpujob.core.reasons import Reason
from gpujob.trainer.endings import Ended


class Stop:
    """Whether somebody wants the training to stop. False for good once nothing more can be lost by going on."""

    def __init__(self) -> None:
        self._told = False
        self._heeded = True

    def install(self) -> None:
        """Listen to SIGTERM from now on."""
        signal.signal(signal.SIGTERM, self._tell)

    def _tell(self, number: int, frame: FrameType | None) -> None:
        self._told = True

    @property
    def wanted(self) -> bool:
        """Say whether to save and exit at the next step boundary."""
        return self._told and self._heeded

    def ignore(self) -> None:
        """Go on whatever comes: the last step is saved, and the result takes moments."""
        self._heeded = False

    def check(self) -> None:
        """End here if so; for the time before the first step, when there is nothing to save."""
        if self.wanted:
            raise Ended(Reason.PREEMPTED, "told to stop before the first step of this attempt")
