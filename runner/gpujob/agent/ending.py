"""How an attempt ends, before anybody else hears of it."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from gpujob.core.reasons import Reason


@dataclass(frozen=True, slots=True)
class Stop:
    """The agent's own decision to end the program. `grace` shortens the spec's where less time is left."""

    reason: Reason
    sentence: str
    grace: float | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """Why the attempt ended: a reason, one plain sentence, and what proves it. `code` as in subprocess."""

    reason: Reason
    sentence: str
    code: int | None = None
    evidence: tuple[str, ...] = ()


class Stopped(Exception):
    """Ends what the attempt is doing, because the agent has decided so."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.sentence)
        self.stop = stop


def told(number: signal.Signals) -> Stop:
    """Say that a signal ended the attempt."""
    return Stop(Reason.PREEMPTED, f"the machine told the attempt to stop ({number.name})")
