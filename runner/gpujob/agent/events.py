"""What the agent has to tell a person: into the events stream, and into its own log."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from gpujob.agent.clock import Clock
from gpujob.agent.redact import Redactor
from gpujob.core.records import Event


class Events:
    """Appends one Event per line. A full disk must not end an attempt, so what cannot be written is left out."""

    def __init__(self, path: Path, attempt: int, redactor: Redactor, clock: Clock) -> None:
        self._path, self._attempt, self._redactor, self._clock = path, attempt, redactor, clock

    def say(self, kind: str, text: str) -> None:
        """Tell something worth knowing; `kind` is one word."""
        event = Event(at=self._clock.now(), attempt=self._attempt, kind=kind, text=self._redactor.text(text))
        sys.stderr.write(f"{kind}: {event.text}\n")
        with suppress(OSError), self._path.open("a") as file:
            file.write(event.model_dump_json() + "\n")
