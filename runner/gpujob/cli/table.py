"""The table of `gpujob ps`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from gpujob.cli import words
from gpujob.cli.live import STYLES, safe_text
from gpujob.core.units import show_duration

if TYPE_CHECKING:
    from gpujob.client.status import Status

_WHOLE = ("ID", "STATE", "STEP", "DURABLE")
"""Columns that a narrow terminal neither cuts nor wraps."""


def table(jobs: Sequence[Status], now: float) -> Table:
    """Draw one row per job."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for name in (*_WHOLE, "AT RISK", "SPENT", "AGE", "HOST"):
        drawn.add_column(name, no_wrap=name in _WHOLE, overflow="fold")
    for job in jobs:
        drawn.add_row(*_row(job, now))
    return drawn


def _row(job: Status, now: float) -> list[Text]:
    step = f"{job.step:,}/{job.total_steps:,}" if job.total_steps else f"{job.step:,}"
    plain = (
        step if job.step else "",
        f"{job.durable_step:,}" if job.durable_step else "",
        words.amount(job.at_risk) if job.at_risk.seconds else "",
        words.amount(job.spent) if job.spent.seconds else "",
        show_duration(now - job.submitted_at),
        job.host or "",
    )
    return [safe_text(job.id), safe_text(words.state(job), STYLES.get(job.state, "")), *map(safe_text, plain)]
