"""The seam to a machine that is not this process: run commands there and move bytes, whatever carries them.

Why it exists: hosts and runtimes drive a machine the same way over SSH, or on this very computer.

Contract
    lazy        Making one does nothing. `open` connects, is idempotent, and is done by whatever needs it; after a
                connection broke, the next call opens a new one. `close` is idempotent.
    argv        A command is a list of arguments and reaches the machine as exactly these, whatever they hold. It runs
                in the user's home, not in a login shell; what a banner, MOTD or .bashrc prints is not in its output.
    exit        A command that ran is a Completed, whatever its exit code; only `check=True` makes that an error.
    threads     One transport may be used by many threads at once; their commands run side by side.
    repeats     Nothing is repeated that may have begun: a command whose answer was lost is HostUnreachable, and the
                caller, who knows whether it may be done twice, decides.
    errors      HostUnreachable (network; may pass), HostDenied (keys; a person must act), HostError (the command, a
                disk); nothing else. No secret is in any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpujob.core.errors import HostError

Progress = Callable[[int], None]
"""Is told of bytes that have just moved."""


@dataclass(frozen=True, slots=True)
class Completed:
    """What a command did. `exit` is negative for the number of the signal that ended it."""

    argv: tuple[str, ...]
    exit: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """The output as text, without its last line end."""
        return self.stdout.decode(errors="replace").rstrip("\n")

    def check(self, operation: str, target: str, hint: str = "") -> Completed:
        """Give itself, or raise HostError with the last thing the command said."""
        if self.exit == 0:
            return self
        said = (self.stderr or self.stdout).decode(errors="replace").strip().splitlines()
        raise HostError(operation, target, said[-1] if said else f"exit code {self.exit}", hint)


class Running(Protocol):
    """A command that runs, with its pipes open: for more than fits into memory, and for conversations.

    `read` gives up to `size` bytes, b"" at the end; `write` blocks while the other side is not reading.
    """

    def write(self, data: bytes) -> None:
        """Send to its standard input; raises HostUnreachable, or HostError when the command has ended."""
        ...

    def close_input(self) -> None:
        """End its standard input."""
        ...

    def read(self, size: int = -1) -> bytes:
        """Read from its standard output; without a size to the end."""
        ...

    def wait(self) -> Completed:
        """End its input and wait for its end. `stdout` is what was not read yet."""
        ...


class Transport(Protocol):
    """A way to one machine."""

    @property
    def name(self) -> str:
        """What a person calls the machine."""
        ...

    def open(self) -> None:
        """Connect unless connected; raises HostUnreachable or HostDenied."""
        ...

    def close(self) -> None:
        """End the connection; commands that run there are not promised to end."""
        ...

    def run(
        self, argv: Sequence[str], *, input: bytes | Iterable[bytes] = b"", timeout: float | None = 60.0
    ) -> Completed:
        """Run a command to its end. Out of time it is HostUnreachable, and may still run there."""
        ...

    def start(self, argv: Sequence[str]) -> AbstractContextManager[Running]:
        """Start a command and talk to it; leaving the context before its end closes its pipes."""
        ...

    def put(self, source: Path, target: str, *, mode: int = 0o644, progress: Progress | None = None) -> None:
        """Write one file there, atomically, its folder made; needs nothing but a shell there."""
        ...

    def get(self, source: str, target: Path, *, progress: Progress | None = None) -> None:
        """Read one file from there into a file here, atomically; never follows `source` out of being a plain file."""
        ...

    def follow(self, path: str, offset: int = 0) -> Iterator[bytes]:
        """Give what a growing file holds from `offset` on, for ever, as it comes (like tail -f).

        Survives a broken connection without losing or repeating a byte. Close the iterator to stop.
        """
        ...
