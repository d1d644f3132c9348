"""Quantities as people write them: `90s`, `15m`, `10h`, `5%`, `8.00`, `40 steps`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?\s*[smhdw]\s*)+")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([smhdw])")
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")

A_DURATION = "a duration such as 90s, 15m or 1h30m"
A_SHARE = "a share such as 5% or 0.05"


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a field takes, in words: for the message about a wrong value and for the reference table."""

    text: str


def parse_duration(value: Any) -> float:
    """Read `90s`, `15m`, `1h30m` or a plain number of seconds; give seconds. Raises ValueError."""
    if _is_number(value):
        seconds = _finite(value)
    elif isinstance(value, str) and _DURATION.fullmatch(value.strip().lower()):
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(value.lower()))
    else:
        raise ValueError(f"must be {A_DURATION}")
    if not math.isfinite(seconds) or seconds <= 0:
        raise ValueError("a duration must be more than zero, and finite")
    return seconds


def parse_percent(value: Any) -> float:
    """Read `5%` or a fraction such as 0.05; give the fraction. Raises ValueError."""
    if isinstance(value, str) and (match := _PERCENT.fullmatch(value.strip())):
        fraction = float(match[1]) / 100
    elif _is_number(value):
        fraction = _finite(value)
    else:
        raise ValueError(f"must be {A_SHARE}")
    if not 0 < fraction < 1:
        raise ValueError("a share must lie between 0 and 1 (0% and 100%)")
    return fraction


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _finite(value: float) -> float:
    """Give a float; an int too large for one becomes infinity."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


Seconds = Annotated[float, BeforeValidator(parse_duration), Allowed(A_DURATION)]
"""A duration in seconds."""

Money = Annotated[float, Field(ge=0, allow_inf_nan=False), Allowed("an amount, 0 or more")]
"""An amount in the currency of the host's price."""


def show_duration(seconds: float) -> str:
    """Write a duration for people: `48 s`, `6 min 12 s`, `2 h 05 min`."""
    if not math.isfinite(seconds):
        return "an unknown time" if math.isnan(seconds) else "without end"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def show_bytes(size: float) -> str:
    """Write a size for people, decimal units: `4.2 kB`, `1.6 GB`."""
    if round(size) < 1000:
        return f"{size:.0f} B"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if round(size, 1) < 1000:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} TB"
