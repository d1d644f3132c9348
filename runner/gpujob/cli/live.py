"""How a job looks on a terminal: a pure function of its status and of what was seen before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gpujob.cli import words
from gpujob.cli.escape import safe
from gpujob.cli.history import History
from gpujob.core.job import TERMINAL, State

if TYPE_CHECKING:
    from gpujob.client.status import Status

_WIDTH = 24

STYLES: dict[State, str] = {
    State.RUNNING: "bold green",
    State.SUCCEEDED: "bold green",
    State.FAILED: "bold red",
    State.CANCELLED: "bold yellow",
    State.UNREACHABLE: "bold black on yellow",
    State.BACKOFF: "yellow",
    State.STOPPING: "yellow",
}
"""How a state stands out; the others are plain."""


def panel(status: Status, history: History) -> RenderableType:
    """Draw a job: headline, progress, numbers, what needs attention, and the newest events."""
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column(overflow="fold")
    for name, value in numbers(status, history):
        rows.add_row(name, safe_text(value))
    if status.state is not State.RUNNING and status.state not in TERMINAL:
        rows.add_row("", safe_text(status.sentence))
    for warning in words.warnings(status):
        rows.add_row("attention", safe_text(warning, "bold yellow"))
    for event in history.events:
        rows.add_row(words.clock(event.at), safe_text(event.text))
    return Group(_headline(status), _progress(status, history), rows)


def safe_text(text: str, style: str = "") -> Text:
    """Make untrusted text printable; markup in it is never read."""
    return Text(safe(text), style=style)


def numbers(status: Status, history: History) -> list[tuple[str, str]]:
    """Give the numbers of a job that there are, named."""
    rows = []
    if status.loss is not None:
        rows.append(("loss", f"{words.number(status.loss)}  {words.spark(history.curve(), _WIDTH)}".rstrip()))
    if history.learning_rate is not None:
        rows.append(("learning rate", words.number(history.learning_rate)))
    rows.append(("durable", words.durable(status)))
    if status.at_risk.seconds:
        rows.append(("at risk", words.amount(status.at_risk)))
    return [*rows, ("spent", words.amount(status.spent))]


def _headline(status: Status) -> Text:
    state = (words.state(status), STYLES.get(status.state, "bold"))
    return Text.assemble((safe(status.id), "bold"), "  ", state, f"  {safe(words.doing(status))}")


def _progress(status: Status, history: History) -> RenderableType:
    row = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=status.total_steps or 1, completed=status.step if status.total_steps else 0, width=_WIDTH)
    row.add_row(bar, "  ".join([f"step {words.steps(status)}", *words.pace(status, history)]))
    return row
