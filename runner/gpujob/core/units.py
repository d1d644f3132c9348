"""Quantities as people write them: `90s`, `15m`, `10h`, `5%`, `8.00`, `40 steps`."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def parse_duration(value: Any) -> float:
    """Read `90s`, `15m`, `1h30m` or a plain number of seconds; give seconds. Raises ValueError."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str) and _DURATION.fullmatch(value.strip().lower()):
        parts = _PART.findall(value.strip().lower())
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    else:
        raise ValueError("a duration is a number with s, m, h, d or w, such as 90s, 15m or 1h30m")
    if not math.isfinite(seconds) or seconds <= 0:
        raise ValueError("a duration must be more than zero")
    return seconds


def parse_percent(value: Any) -> float:
    """Read `5%` or a fraction such as 0.05; give the fraction. Raises ValueError."""
    if isinstance(value, str) and value.strip().endswith("%"):
        fraction = float(value.strip()[:-1]) / 100
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        fraction = float(value)
    else:
        raise ValueError("a share is a percentage such as 5% or a fraction such as 0.05")
    if not 0 < fraction < 1:
        raise ValueError("a share must lie between 0 and 1 (0% and 100%)")
    return fraction


Seconds = Annotated[float, BeforeValidator(parse_duration)]
"""A duration in seconds."""

Money = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""An amount in the currency of the host's price."""


def show_duration(seconds: float) -> str:
    """Write a duration for people: `48 s`, `6 min 12 s`, `2 h 05 min`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def show_bytes(size: float) -> str:
    """Write a size for people, decimal units: `4.2 kB`, `1.6 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
