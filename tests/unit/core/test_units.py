import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpujob.core.units import parse_duration, parse_percent, show_bytes, show_duration

ANYTHING = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers()))
SIZES = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("1h30m", 5400), (" 1 H 30 M ", 5400), ("0.5h", 1800), ("2w", 1209600), (30, 30)],
)
def test_durations_are_read(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "10 hours", "h", "-5m", "0s", 0, -1, True, None, "1e3s", "٣m", "5m x"])
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@given(ANYTHING)
@example(10**400)
@example("9" * 400 + "w")
@example("nan%")
def test_readers_give_a_usable_number_or_value_error(value: object) -> None:
    for read, top in ((parse_duration, math.inf), (parse_percent, 1)):
        try:
            number = read(value)
        except ValueError:
            continue
        assert 0 < number < top


@given(st.lists(st.tuples(st.integers(1, 10**6), st.sampled_from(sorted(SIZES))), min_size=1))
def test_a_duration_is_the_sum_of_its_parts(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in parts)
    assert parse_duration(text) == sum(number * SIZES[unit] for number, unit in parts)


@given(st.integers(1, 99))
def test_a_percentage_and_its_fraction_are_the_same(percent: int) -> None:
    assert parse_percent(f"{percent}%") == parse_percent(percent / 100) == percent / 100


@pytest.mark.parametrize("value", ["0%", "100%", 5, 0, 1.0, "x%", "5", True, None, math.nan])
def test_what_is_no_share_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="share"):
        parse_percent(value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (48.4, "48 s"), (59.7, "1 min 00 s"), (372, "6 min 12 s"), (7500, "2 h 05 min"), (-3, "0 s")],
)
def test_durations_are_shown(seconds: float, text: str) -> None:
    assert show_duration(seconds) == text


@given(st.floats())
def test_any_duration_can_be_shown(seconds: float) -> None:
    assert show_duration(seconds)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (999.9, "1.0 kB"), (4200, "4.2 kB"), (999_999, "1.0 MB"), (2e15, "2000.0 TB")],
)
def test_sizes_are_shown(size: float, text: str) -> None:
    assert show_bytes(size) == text
