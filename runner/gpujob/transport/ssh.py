"""A machine over SSH (paramiko): one connection, many channels, a shell there and nothing else.

No SFTP, scp, rsync or sudo is needed. What a banner, MOTD or .bashrc prints before a command is cut off at a mark.
"""

from __future__ import annotations

import secrets
import shlex
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from threading import RLock, Thread
from typing import TYPE_CHECKING

from gpujob import files
from gpujob.core.errors import HostError, HostUnreachable
from gpujob.transport.connect import Connection, connect
from gpujob.transport.hostkeys import Ask
from gpujob.transport.protocol import Completed, Progress

if TYPE_CHECKING:
    from paramiko import Channel

_BLOCK = 1 << 17
_WINDOW = 1 << 25
_BACKOFF = (0.2, 30.0)
_LOOK_SECONDS = 0.2


@dataclass(slots=True)
class Ssh:
    """Reach what `ssh NAME` reaches. Keys a person accepts are kept in `own_known_hosts`."""

    name: str
    environ: Mapping[str, str] = field(repr=False)
    own_known_hosts: Path
    host_key: str | None = None
    ask: Ask | None = None
    _connection: Connection | None = field(default=None, init=False)
    _lock: RLock = field(default_factory=RLock, init=False, repr=False)

    def open(self) -> None:
        """Connect unless connected."""
        with self._lock:
            if not self.connected:
                self.close()
                self._connection = connect(self.name, self.environ, self.own_known_hosts, self.host_key, self.ask)

    @property
    def connected(self) -> bool:
        """Say whether a connection stands, as far as is known."""
        return self._connection is not None and self._connection.alive

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def run(
        self, argv: Sequence[str], *, input: bytes | Iterable[bytes] = b"", timeout: float | None = 60.0
    ) -> Completed:
        """Run a command to its end."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._channel(argv, deadline) as running:
            feeder = Thread(target=running.feed, args=(input,), daemon=True)
            feeder.start()
            rest = running.read()
            feeder.join()
            done = running.wait(rest)
            if running.failure is not None:
                raise running.failure
            return done

    @contextmanager
    def start(self, argv: Sequence[str]) -> Iterator[_Remote]:
        """Start a command and talk to it."""
        with self._channel(argv, None) as running:
            yield running

    def put(self, source: Path, target: str, *, mode: int = 0o644, progress: Progress | None = None) -> None:
        """Write one file there, atomically and compared by size."""
        try:
            size = source.stat().st_size
        except OSError as error:
            raise HostError("send", str(source), error.strerror or str(error)) from error
        script = (
            'umask 077; mkdir -p "$2" && temp=$(mktemp "$2/.gpujob-XXXXXX") && cat > "$temp" && '
            '[ "$(wc -c < "$temp")" -eq "$3" ] && chmod "$4" "$temp" && mv -f "$temp" "$1" || '
            '{ rm -f "$temp"; exit 1; }'
        )
        folder = str(PurePosixPath(target).parent)
        argv = ["sh", "-c", script, "sh", target, folder, str(size), f"{mode:o}"]
        done = self.run(argv, input=_blocks(source, progress or (lambda count: None)), timeout=None)
        done.check("write", f"{self.name}:{target}", "is its disk full?")

    def get(self, source: str, target: Path, *, progress: Progress | None = None) -> None:
        """Read one plain file from there, atomically."""
        script = '[ -f "$1" ] && [ ! -L "$1" ] || { echo "it is not a plain file" >&2; exit 1; }; cat -- "$1"'
        argv = ["sh", "-c", script, "sh", source]
        try:
            files.make_folder(target.parent)
            with files.replacing(target) as temp, temp.open("wb") as file, self.start(argv) as running:
                running.close_input()
                while data := running.read(_BLOCK):
                    file.write(data)
                    if progress:
                        progress(len(data))
                running.wait().check("read", f"{self.name}:{source}")
        except OSError as error:
            raise HostError("write", str(target), error.strerror or str(error)) from error

    def follow(self, path: str, offset: int = 0) -> Iterator[bytes]:
        """Give what a growing file holds from `offset` on, for ever, over any number of connections."""
        wait, longest = _BACKOFF
        script = 'while [ ! -f "$1" ]; do sleep 1 || exit; done; exec tail -c "+$2" -f -- "$1"'
        while True:
            argv = ["sh", "-c", script, "sh", path, str(offset + 1)]
            with suppress(HostUnreachable), self.start(argv) as running:
                while data := running.read(_BLOCK):
                    offset += len(data)
                    wait = _BACKOFF[0]
                    yield data
            time.sleep(wait)
            wait = min(wait * 2, longest)

    def _open_channel(self) -> Channel:
        """Open one; over a new connection when the old one turns out to be broken: nothing has begun yet."""
        with self._lock:
            was = self._connection
            self.open()
            assert self._connection is not None
            try:
                return self._connection.channel(_WINDOW)
            except HostUnreachable:
                if self._connection is not was:
                    raise
            self.open()
            return self._connection.channel(_WINDOW)

    @contextmanager
    def _channel(self, argv: Sequence[str], deadline: float | None) -> Iterator[_Remote]:
        """Start a command on a channel of its own, past everything the login printed."""
        channel = self._open_channel()
        mark = f"gpujob-{secrets.token_hex(8)}"
        # Our own words first: neither banner nor .bashrc knows the mark.
        line = f"printf '%s\\n' {mark}; printf '%s\\n' {mark} >&2; {shlex.join(argv)}"
        running = _Remote(tuple(argv), channel, self.name, deadline)
        try:
            with _told(self.name, argv):
                channel.exec_command(f"exec /bin/sh -c {shlex.quote(line)}")
            running.begin(mark.encode() + b"\n")
            yield running
        finally:
            with suppress(EOFError, OSError):  # over a connection that broke
                channel.close()


class _Remote:
    """A command on a channel. Its two outputs share a window, so each is read by a thread or by the caller."""

    def __init__(self, argv: tuple[str, ...], channel: Channel, host: str, deadline: float | None) -> None:
        self._argv, self._channel, self._host, self._deadline = argv, channel, host, deadline
        self._errors = bytearray()
        self._output = b""
        self._mark = b""
        self.failure: HostError | None = None
        self._reader = Thread(target=self._read_errors, daemon=True)

    def begin(self, mark: bytes) -> None:
        """Skip what was printed before the mark."""
        self._mark = mark
        self._reader.start()
        seen = b""
        while mark not in seen:
            data = self._recv()
            if not data:
                raise HostUnreachable("start", self._argv[0], f"{self._host} gives no shell", "try `ssh` by hand")
            seen += data
        self._output = seen.partition(mark)[2]

    def feed(self, data: bytes | Iterable[bytes]) -> None:
        """Send all of the input; keeps the failure that was not the command's own end."""
        try:
            for block in (data,) if isinstance(data, bytes) else data:
                self.write(block)
        except HostUnreachable as error:
            self.failure = error
        except HostError:
            pass  # it has ended, and says why by its exit code
        except Exception as error:  # the iterable's own
            self.failure = HostError("read", "the input", str(error))
        with suppress(Exception):
            self.close_input()

    def write(self, data: bytes) -> None:
        """Send to its standard input."""
        with _told(self._host, self._argv):
            view = memoryview(data)
            while view:
                self._settle()
                if self._channel.closed or self._channel.eof_received or self._channel.exit_status_ready():
                    raise HostError("write to", self._argv[0], "it has ended")
                with suppress(TimeoutError):
                    view = view[self._channel.send(view[:_BLOCK]) :]

    def close_input(self) -> None:
        """End its standard input."""
        with _told(self._host, self._argv):
            self._channel.shutdown_write()

    def read(self, size: int = -1) -> bytes:
        """Read from its standard output."""
        if size < 0:
            return b"".join(iter(lambda: self.read(_BLOCK), b""))
        if self._output:
            data, self._output = self._output[:size], self._output[size:]
            return data
        return self._recv(size)

    def wait(self, already: bytes = b"") -> Completed:
        """Wait for its end; what was read `already` stands before the rest."""
        with suppress(HostError):
            self.close_input()
        rest = already + self.read()
        while not self._channel.exit_status_ready():
            if self._channel.closed or not self._channel.get_transport().is_active():
                raise self._lost()
            self._settle()
            self._channel.status_event.wait(_LOOK_SECONDS)
        self._reader.join()
        code = self._channel.recv_exit_status()
        if code == -1:
            raise self._lost()
        # paramiko keeps no exit signal; the shell there has made this number of it.
        code = 128 - code if 128 < code < 128 + signal.NSIG else code
        return Completed(self._argv, code, rest, bytes(self._errors).partition(self._mark)[2])

    def _recv(self, size: int = _BLOCK) -> bytes:
        while True:
            self._settle()
            with _told(self._host, self._argv), suppress(TimeoutError):
                data: bytes = self._channel.recv(size)
                if not data and not self._channel.get_transport().is_active():
                    raise self._lost()
                return data

    def _settle(self) -> None:
        """Keep the deadline."""
        self._channel.settimeout(_LOOK_SECONDS)
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise HostUnreachable(
                "run", self._argv[0], f"{self._host} did not answer in time", "it may still run there"
            )

    def _read_errors(self) -> None:
        with suppress(Exception):
            while True:
                try:
                    data = self._channel.recv_stderr(_BLOCK)
                except TimeoutError:
                    continue
                if not data:
                    return
                self._errors += data

    def _lost(self) -> HostUnreachable:
        return HostUnreachable("run", self._argv[0], f"the connection to {self._host} broke", "it may still run there")


@contextmanager
def _told(host: str, argv: Sequence[str]) -> Iterator[None]:
    """Let nothing of paramiko's or the socket's own errors out."""
    import paramiko

    try:
        yield
    except TimeoutError:
        raise
    except (paramiko.SSHException, EOFError, OSError) as error:
        cause = str(error) or "the connection broke"
        raise HostUnreachable("run", argv[0], f"{host}: {cause}", "it may still run there") from error


def _blocks(path: Path, progress: Callable[[int], None]) -> Iterator[bytes]:
    with path.open("rb") as file:
        while data := file.read(_BLOCK):
            yield data
            progress(len(data))
