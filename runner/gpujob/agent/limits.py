"""The limits a rental enforces by itself: pure functions of what was spent and when something last moved."""

from __future__ import annotations

from dataclasses import dataclass

from gpujob.agent.ending import Stop
from gpujob.core.reasons import Reason
from gpujob.core.spec import Limits
from gpujob.core.units import show_duration


@dataclass(frozen=True, slots=True)
class Bill:
    """What the job costs: `seconds` and `cost` of the attempts before this one, `price` per hour of this machine."""

    seconds: float = 0.0
    cost: float = 0.0
    price: float = 0.0

    def own_cost(self, elapsed: float) -> float:
        """Give what this attempt has cost."""
        return elapsed * self.price / 3600


@dataclass(frozen=True, slots=True)
class Signs:
    """When the training last moved, in seconds since the attempt's start; None = never in this attempt.

    `other` are signs that count only as long as no step can be expected: before the first one of a program that
    may never report any, and after the last.
    """

    step: float | None = None
    other: float | None = None
    finished: bool = False


def exceeded(limits: Limits, bill: Bill, elapsed: float, signs: Signs) -> Stop | None:
    """Say which limit ends the attempt now, if any. Time and cost leave room for the grace."""
    return _time(limits, bill, elapsed) or _cost(limits, bill, elapsed) or _silence(limits, elapsed, signs)


def _time(limits: Limits, bill: Bill, elapsed: float) -> Stop | None:
    if limits.duration is None:
        return None
    spent, grace = bill.seconds + elapsed, _grace(limits, limits.duration)
    if spent < limits.duration - grace:
        return None
    limit = f"the time limit of {show_duration(limits.duration)} over all attempts"
    return Stop(Reason.LIMIT_TIME, f"{limit} is reached: {_fits(show_duration(spent), grace)}", grace)


def _cost(limits: Limits, bill: Bill, elapsed: float) -> Stop | None:
    if limits.cost is None or bill.price == 0:
        return None
    grace = _grace(limits, limits.cost / bill.price * 3600)
    spent = bill.cost + bill.own_cost(elapsed)
    if spent < limits.cost - bill.own_cost(grace):
        return None
    limit = f"the cost limit of {limits.cost:.2f} over all attempts"
    return Stop(Reason.LIMIT_COST, f"{limit} is reached: {_fits(f'{spent:.2f}', grace)}", grace)


def _grace(limits: Limits, whole: float) -> float:
    """Keep the grace within half of a short limit: one shorter than its grace would end before it began."""
    return min(limits.grace, whole / 2)


def _fits(spent: str, grace: float) -> str:
    return f"{spent} are spent, and {show_duration(grace)} are left for the program to save and end"


def _silence(limits: Limits, elapsed: float, signs: Signs) -> Stop | None:
    if signs.step is None and signs.other is None:
        over, what = elapsed > limits.startup, f"made no first step within {show_duration(limits.startup)}"
    elif signs.step is None:
        over = elapsed > limits.startup and elapsed - (signs.other or 0.0) > limits.stall
        what = f"showed neither output nor a checkpoint for {show_duration(limits.stall)}, and never a step"
    else:
        last = max(signs.step, signs.other or 0.0) if signs.finished else signs.step
        over, what = elapsed - last > limits.stall, f"made no new step for {show_duration(limits.stall)}"
    return Stop(Reason.STALLED, f"the training {what}") if over else None
