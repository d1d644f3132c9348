"""Three ways to watch the same job: a panel that redraws itself, plain lines for a pipe, JSON lines for a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from gpujob.cli import words
from gpujob.cli.history import History
from gpujob.cli.output import Output, plain

if TYPE_CHECKING:
    from gpujob.client.status import Status
    from gpujob.core.records import Event

EVERY = 30.0
"""Seconds between two plain lines of a job that only makes steps."""


class View(Protocol):
    """Where looks at a job go."""

    def show(self, status: Status, news: Sequence[Event], history: History, now: float) -> None:
        """Show how the job stands, what happened since the last look, and what was seen before."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was found."""
        ...


class Lines:
    """One line per change, or every now and then; no control characters."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._key: tuple[object, ...] = ()
        self._step, self._at = -1, 0.0

    def show(self, status: Status, news: Sequence[Event], history: History, now: float) -> None:
        """Print what changed."""
        for event in news:
            self._output.say(f"{words.clock(event.at)} {event.text}")
        key = (status.state, status.attempt, status.phase, status.durable_step, *words.warnings(status))
        if key != self._key or (status.step != self._step and now - self._at >= EVERY):
            self._key, self._step, self._at = key, status.step, now
            self._output.say(f"{words.clock(now)} {line(status, history)}")

    def close(self) -> None:
        """Nothing to leave behind."""


class JsonLines:
    """One JSON object per event, and one per status that differs from the last one."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._last: dict[str, Any] = {}

    def show(self, status: Status, news: Sequence[Event], history: History, now: float) -> None:
        """Print what is new."""
        for event in news:
            self._output.item({"event": plain(event)})
        values = plain(status)
        if values != self._last:
            self._last = values
            self._output.item({"status": values})

    def close(self) -> None:
        """Nothing to leave behind."""


class Panel:
    """The live view of a terminal."""

    def __init__(self, output: Output) -> None:
        from rich.live import Live

        self._live = Live(console=output.console(), auto_refresh=False, vertical_overflow="visible")
        self._live.start()

    def show(self, status: Status, news: Sequence[Event], history: History, now: float) -> None:
        """Redraw."""
        from gpujob.cli.live import panel

        self._live.update(panel(status, history), refresh=True)

    def close(self) -> None:
        """Leave the last picture, and the cursor visible."""
        self._live.stop()


def view_of(output: Output) -> View:
    """Choose by where standard output leads."""
    if output.json:
        return JsonLines(output)
    return Panel(output) if output.on_terminal else Lines(output)


def line(status: Status, history: History) -> str:
    """Say in one line how a job stands."""
    parts = [words.state(status), *filter(None, [words.doing(status)])]
    if status.step:
        parts.append(f"step {words.steps(status)}")
    if status.loss is not None:
        parts.append(f"loss {words.number(status.loss)}")
    parts += [*words.pace(status, history), f"durable: {words.durable(status)}"]
    if status.at_risk.seconds:
        parts.append(f"at risk: {words.amount(status.at_risk)}")
    return "  ".join([*parts, f"spent: {words.amount(status.spent)}", *words.warnings(status)])
