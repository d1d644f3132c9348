"""Where everything is printed: text for people or JSON for programs, and never an untrusted byte as it came."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from gpujob.cli.escape import safe_lines
from gpujob.cli.exits import Exit
from gpujob.core.errors import GpujobError, SpecError

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console, RenderableType


class Output:
    """One command's way to say things. Results go to standard output, all that is about the way there to the other.

    With `json` standard output carries JSON alone: one document, or one line per item where a verb streams.
    """

    def __init__(self, environ: Mapping[str, str], json: bool = False) -> None:
        self.json = json
        self._environ = environ

    @property
    def on_terminal(self) -> bool:
        """Say whether a person is looking at standard output."""
        return sys.stdout.isatty() and self._environ.get("TERM") != "dumb" and not self.json

    def document(self, value: Mapping[str, Any]) -> None:
        """Print the one JSON document of this command."""
        _print(json.dumps(value, indent=2))

    def item(self, value: Mapping[str, Any]) -> None:
        """Print one JSON line of a stream."""
        _print(json.dumps(value))

    def say(self, text: str = "") -> None:
        """Print a result for people; nothing with `json`."""
        if not self.json:
            for line in safe_lines(text):
                _print(line)

    def result(self, value: Mapping[str, Any], text: str) -> None:
        """Print a command's result in the form that was asked for."""
        if self.json:
            self.document(value)
        else:
            self.say(text)

    def note(self, text: str) -> None:
        """Print something about the way there, on standard error."""
        for line in safe_lines(text):
            print(line, file=sys.stderr, flush=True)

    def error(self, error: GpujobError) -> None:
        """Print an error: in words on standard error, or as the last JSON of standard output."""
        if self.json:
            self.item({"error": as_json(error)})
        else:
            self.note(f"{error}" if isinstance(error, SpecError) else f"error: {error}")

    def show(self, renderable: RenderableType) -> None:
        """Print something drawn."""
        console = self.console()
        with console.capture() as captured:
            console.print(renderable)
        _print("\n".join(line.rstrip() for line in captured.get().splitlines()))

    def console(self, *, stderr: bool = False) -> Console:
        """Give a console that reads no markup; without a terminal it has no colour, and no line is cut."""
        from rich.console import Console

        stream = sys.stderr if stderr else sys.stdout
        return Console(
            file=stream,
            markup=False,
            emoji=False,
            highlight=False,
            width=None if stream.isatty() else 500,
            _environ=self._environ,
        )


def plain(record: BaseModel) -> dict[str, Any]:
    """Give a record as plain JSON values; a number that is not finite becomes null, as JSON has none."""
    values: dict[str, Any] = json.loads(record.model_dump_json())
    return values


def as_json(error: GpujobError) -> dict[str, Any]:
    """Give an error as plain JSON values."""
    problems = error.problems if isinstance(error, SpecError) else ()
    return {
        "operation": error.operation,
        "target": error.target,
        "cause": error.cause,
        "hint": error.hint,
        "problems": [{name: getattr(problem, name) for name in problem.__slots__} for problem in problems],
    }


def _print(line: str) -> None:
    try:
        # Flushed, so that `gpujob logs ID -f | tee file` shows a line when it comes.
        print(line, flush=True)
    except BrokenPipeError:
        # Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(Exit.NOBODY_READS) from None
