"""What the child prints: redacted, cut into lines, kept in a file, and its end remembered as evidence."""

from __future__ import annotations

import os
import threading
from collections import deque
from pathlib import Path

from gpujob.agent.clock import Clock
from gpujob.agent.redact import Redactor

LONGEST_LINE = 64 * 1024
_CHUNK = 64 * 1024
_EVIDENCE_LINES = 40
_EVIDENCE_WIDTH = 500
_CUT = b" [cut]"


class Output:
    """Appends whole, redacted lines to a file. Progress bars (\\r) become lines of their own.

    `line_at` is when the last line came (monotonic), if any. `failure` is why the file could not be written; the child
    is read on all the same, since it would stand still otherwise.
    """

    def __init__(self, log: Path, redactor: Redactor, clock: Clock) -> None:
        self._redactor, self._clock = redactor, clock
        self._log = log.open("ab", buffering=0)
        self._tail: deque[bytes] = deque(maxlen=_EVIDENCE_LINES)
        self._line = bytearray()
        self._keep = LONGEST_LINE + redactor.longest
        self._dropped = self._after_return = False
        self.line_at: float | None = None
        self.failure: OSError | None = None

    @property
    def evidence(self) -> tuple[str, ...]:
        """The last lines, each cut to a readable width."""
        return tuple(line.decode(errors="replace")[:_EVIDENCE_WIDTH] for line in tuple(self._tail))

    def feed(self, chunk: bytes) -> None:
        """Take in what the child printed, however it was torn."""
        if self._after_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_return = chunk.endswith(b"\r")
        *whole, rest = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        lines = [self._finish(part) for part in whole]
        self._collect(rest)
        if lines:
            self._write(lines)

    def close(self) -> None:
        """Write what came without an end of line, and close the file."""
        if self._line:
            self._write([self._finish(b"")])
        self._log.close()

    def _collect(self, part: bytes) -> None:
        room = self._keep - len(self._line)
        self._dropped = self._dropped or len(part) > room
        self._line += part[:room]

    def _finish(self, part: bytes) -> bytes:
        self._collect(part)
        line = bytes(self._line)
        if self._dropped or len(line) > LONGEST_LINE:
            line = self._redactor.head(line, LONGEST_LINE) + _CUT
        else:
            line = self._redactor.data(line)
        self._line.clear()
        self._dropped = False
        return line

    def _write(self, lines: list[bytes]) -> None:
        self.line_at = self._clock.monotonic()
        self._tail.extend(line for line in lines if line.strip())
        try:
            self._log.write(b"\n".join(lines) + b"\n")
        except OSError as error:
            self.failure = error


class Pump:
    """Reads a pipe into an Output until its other ends are all closed, in a thread of its own."""

    def __init__(self, pipe: int, output: Output) -> None:
        self._pipe, self._output = pipe, output
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait until all was read. Nobody may hold the pipe any more."""
        self._thread.join(seconds)

    def _run(self) -> None:
        while chunk := os.read(self._pipe, _CHUNK):
            self._output.feed(chunk)
        os.close(self._pipe)
