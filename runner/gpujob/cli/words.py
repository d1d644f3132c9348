"""How a job's state and numbers are written, the same in every verb. Everything given here is still to be escaped."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from gpujob.core.job import State
from gpujob.core.units import show_duration

if TYPE_CHECKING:
    from gpujob.cli.history import History
    from gpujob.client.status import Amount, Status

_BARS = "▁▂▃▄▅▆▇█"


def amount(spent: Amount) -> str:
    """Write time, and money where it costs any: `6 h 02 min, 2.31`."""
    return f"{show_duration(spent.seconds)}, {spent.cost:.2f}" if spent.cost else show_duration(spent.seconds)


def state(status: Status) -> str:
    """Write the state, with the reason of a failure."""
    return f"{status.state} {status.reason}" if status.state is State.FAILED and status.reason else str(status.state)


def doing(status: Status) -> str:
    """Write what an attempt is doing and where: `training  attempt 2 on gpu-box`; empty before the first."""
    parts = [status.phase.value] if status.phase else []
    if status.attempt:
        parts.append(f"attempt {status.attempt}" + (f" on {status.host}" if status.host else ""))
    return "  ".join(parts)


def steps(status: Status) -> str:
    """Write progress: `1,210/3,000 (40%)`."""
    step, total = status.step, status.total_steps
    return f"{step:,}/{total:,} ({min(100, 100 * step // total)}%)" if total else f"{step:,}"


def pace(status: Status, history: History) -> list[str]:
    """Say how fast it goes and how long it will take, as far as that is known."""
    rate, left = history.rate(), history.seconds_left(status.total_steps)
    if rate is None or status.state is not State.RUNNING:
        return []
    speed = f"{rate:.2f} steps/s" if rate >= 0.1 else f"{1 / rate:.1f} s/step"
    return [speed, f"{show_duration(left)} left"] if left is not None else [speed]


def durable(status: Status) -> str:
    """Say what is safe in the store, and how old it is while work goes on."""
    if not status.durable_step:
        return "no checkpoint yet"
    age = f", {show_duration(status.at_risk.seconds)} old" if status.at_risk.seconds else ""
    return f"step {status.durable_step:,}{age}"


def warnings(status: Status) -> list[str]:
    """Say what a person must not overlook."""
    found = [f"{host} may still be billing: it is not confirmed as released" for host in status.unreleased]
    if status.state is State.UNREACHABLE:
        found.append(f"{status.host} cannot be reached, and may still be billing")
    if status.trouble:
        found.append(status.trouble)
    if status.stale:
        found.append("the store does not answer; this is what was known before")
    return found


def number(value: float) -> str:
    """Write a loss or a learning rate with four digits that matter."""
    return f"{value:.4g}"


def moment(at: float) -> str:
    """Write a moment in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def clock(at: float) -> str:
    """Write a moment as the local time of day."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def spark(values: Sequence[float], width: int) -> str:
    """Draw finite values as a line of bars, oldest left, each bar the mean of its share."""
    if len(values) < 2:
        return ""
    width = min(width, len(values))
    edges = [index * len(values) // width for index in range(width + 1)]
    means = [sum(values[start:end]) / (end - start) for start, end in pairwise(edges)]
    low, span = min(means), max(means) - min(means)
    return "".join(_BARS[round((mean - low) / span * (len(_BARS) - 1)) if span else 0] for mean in means)
