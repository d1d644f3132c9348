import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpujob.core.cadence import interval, observed_mtbl

TIMES = st.floats(1e-3, 1e7)


def test_young_s_example() -> None:
    assert interval(2, 3600, at_least=1, at_most=10_000) == 120


@given(st.floats(), st.floats())
def test_every_input_gives_a_bounded_interval(save: float, between: float) -> None:
    assert 30 <= interval(save, between, at_least=30, at_most=1800) <= 1800


@given(TIMES, TIMES)
def test_no_other_interval_wastes_less(save: float, between: float) -> None:
    best = interval(save, between, at_least=0, at_most=math.inf)

    def waste(every: float) -> float:
        return save / every + every / (2 * between)

    assert waste(best) <= min(waste(best * 1.1), waste(best / 1.1))


@given(TIMES, TIMES, st.floats(1, 10))
def test_dearer_saves_and_rarer_losses_mean_fewer_checkpoints(save: float, between: float, more: float) -> None:
    def at(save: float, between: float) -> float:
        return interval(save, between, at_least=10, at_most=3600)

    assert at(save * more, between) >= at(save, between)
    assert at(save, between * more) >= at(save, between)


@pytest.mark.parametrize(
    ("save", "between", "expected"),
    [
        (5, math.inf, 1800),  # nothing was ever lost
        (0, math.inf, 30),  # saving is free
        (math.inf, 100, 1800),
        (5, 0, 30),
        (-1, 100, 30),
        (math.nan, 100, 30),
        (5, math.nan, 30),
    ],
)
def test_the_edges(save: float, between: float, expected: float) -> None:
    assert interval(save, between, at_least=30, at_most=1800) == expected


def test_nothing_seen_is_the_prior() -> None:
    assert observed_mtbl(0, 0, 7200) == 7200


def test_much_seen_outweighs_the_prior() -> None:
    assert observed_mtbl(1e7, 999, 7200) == pytest.approx(1e7 / 1000, rel=0.001)


@given(st.floats(), st.integers(-3, 100), st.floats())
def test_an_observation_is_never_negative_nor_nan(run: float, losses: int, prior: float) -> None:
    assert observed_mtbl(run, losses, prior) >= 0


@given(st.floats(0, 1e7), st.integers(0, 100), TIMES)
def test_losses_shorten_and_quiet_lengthens(run: float, losses: int, prior: float) -> None:
    seen = observed_mtbl(run, losses, prior)
    assert observed_mtbl(run, losses + 1, prior) < seen
    assert observed_mtbl(run + 60, losses, prior) > seen
