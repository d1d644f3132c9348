"""The rental's own limits, as a function of numbers."""

from __future__ import annotations

import pytest

from gpujob.agent.ending import Stop
from gpujob.agent.limits import Bill, Signs, exceeded
from gpujob.core.reasons import Reason
from gpujob.core.spec import Limits

QUIET = Limits(stall=1e9, startup=1e9)


def reason(limits: Limits, elapsed: float, bill: Bill | None = None, signs: Signs | None = None) -> Reason | None:
    stop = exceeded(limits, bill or Bill(), elapsed, signs or Signs())
    return stop.reason if stop else None


@pytest.mark.parametrize(("elapsed", "expected"), [(839.9, None), (840.0, Reason.LIMIT_TIME)])
def test_time_counts_all_attempts_and_leaves_the_grace(elapsed: float, expected: Reason | None) -> None:
    limits = QUIET.model_copy(update={"duration": 1000.0, "grace": 60.0})
    assert reason(limits, elapsed, Bill(seconds=100.0)) is expected


@pytest.mark.parametrize(("elapsed", "expected"), [(3539.0, None), (3541.0, Reason.LIMIT_COST)])
def test_cost_counts_all_attempts_and_leaves_the_grace(elapsed: float, expected: Reason | None) -> None:
    limits = QUIET.model_copy(update={"cost": 3.0, "grace": 60.0})
    assert reason(limits, elapsed, Bill(cost=1.0, price=2.0)) is expected


def test_what_costs_nothing_never_reaches_a_cost_limit() -> None:
    assert reason(QUIET.model_copy(update={"cost": 0.0}), 1e6, Bill(cost=5.0)) is None


def test_a_limit_shorter_than_its_grace_still_lets_it_begin() -> None:
    limits = QUIET.model_copy(update={"duration": 30.0, "grace": 60.0})
    assert reason(limits, 14.9) is None
    stop = exceeded(limits, Bill(), 15.0, Signs())
    assert stop == Stop(
        Reason.LIMIT_TIME,
        "the time limit of 30 s over all attempts is reached: 15 s are spent, and 15 s are left for the program to "
        "save and end",
        grace=15.0,
    )


LIMITS = Limits(startup=100.0, stall=50.0)


@pytest.mark.parametrize(
    ("elapsed", "signs", "stalled"),
    [
        (100.0, Signs(), False),
        (100.1, Signs(), True),
        (100.1, Signs(step=99.0), False),
        (149.0, Signs(step=99.0), False),
        (149.1, Signs(step=99.0), True),
        (60.0, Signs(step=1.0), True),
        # Signs other than steps: after the startup time they stand in for the steps that never came …
        (90.0, Signs(other=1.0), False),
        (101.0, Signs(other=1.0), True),
        (101.0, Signs(other=60.0), False),
        (110.1, Signs(other=60.0), True),
        # … but not for those that stopped coming, unless there are none to come.
        (149.1, Signs(step=99.0, other=149.0), True),
        (149.1, Signs(step=99.0, other=149.0, finished=True), False),
        (199.1, Signs(step=99.0, other=149.0, finished=True), True),
        (149.1, Signs(step=99.0, finished=True), True),
    ],
)
def test_silence(elapsed: float, signs: Signs, stalled: bool) -> None:
    assert reason(LIMITS, elapsed, signs=signs) is (Reason.STALLED if stalled else None)
