"""This computer as the machine: commands are its own processes."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from gpujob import files
from gpujob.core.errors import HostError, HostUnreachable
from gpujob.transport.protocol import Completed, Progress

_BLOCK = 1 << 20
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Local:
    """Run commands as `home`'s owner would; `environ` is all they see."""

    environ: dict[str, str]
    name: str = "this machine"
    home: Path = field(default_factory=Path.home)

    def open(self) -> None:
        """Do nothing: it is here."""

    def close(self) -> None:
        """Do nothing."""

    def run(
        self, argv: Sequence[str], *, input: bytes | Iterable[bytes] = b"", timeout: float | None = 60.0
    ) -> Completed:
        """Run a command to its end."""
        data = input if isinstance(input, bytes) else b"".join(input)
        try:
            done = subprocess.run(
                argv, input=data, capture_output=True, timeout=timeout, cwd=self.home, env=self.environ, check=False
            )
        except subprocess.TimeoutExpired:
            raise HostUnreachable("run", argv[0], f"it did not end within {timeout:g} s") from None
        except OSError as error:
            return _cannot(argv, error)
        return Completed(tuple(argv), done.returncode, done.stdout, done.stderr)

    @contextmanager
    def start(self, argv: Sequence[str]) -> Iterator[_Process]:
        """Start a command and talk to it."""
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.home,
                env=self.environ,
            )
        except OSError as error:
            raise HostError("start", argv[0], error.strerror or str(error)) from error
        running = _Process(tuple(argv), process)
        try:
            yield running
        finally:
            running.close()

    def put(self, source: Path, target: str, *, mode: int = 0o644, progress: Progress | None = None) -> None:
        """Copy one file, atomically."""
        _copy(source, Path(target), progress)
        Path(target).chmod(mode)

    def get(self, source: str, target: Path, *, progress: Progress | None = None) -> None:
        """Copy one plain file, atomically."""
        if Path(source).is_symlink() or not Path(source).is_file():
            raise HostError("read", source, "it is not a plain file")
        _copy(Path(source), target, progress)

    def follow(self, path: str, offset: int = 0) -> Iterator[bytes]:
        """Give what a growing file holds from `offset` on, for ever."""
        while True:
            with suppress(FileNotFoundError), Path(path).open("rb") as file:
                file.seek(offset)
                while data := file.read(_BLOCK):
                    offset += len(data)
                    yield data
            time.sleep(_LOOK_SECONDS)


class _Process:
    """A command that runs here."""

    def __init__(self, argv: tuple[str, ...], process: subprocess.Popen[bytes]) -> None:
        self._argv, self._process = argv, process
        self._errors = bytearray()
        self._reader = Thread(target=self._read_errors, daemon=True)
        self._reader.start()

    def write(self, data: bytes) -> None:
        """Send to its standard input."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise HostError("write to", self._argv[0], "it has ended") from error

    def close_input(self) -> None:
        """End its standard input."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def read(self, size: int = -1) -> bytes:
        """Read from its standard output."""
        assert self._process.stdout is not None
        output = self._process.stdout
        return output.read() if size < 0 else output.read1(size)  # type: ignore[attr-defined]

    def wait(self) -> Completed:
        """Wait for its end."""
        self.close_input()
        rest = self.read()
        code = self._process.wait()
        self._reader.join()
        return Completed(self._argv, code, rest, bytes(self._errors))

    def close(self) -> None:
        """Let go of it: it sees its pipes closed, and is ended when that does not end it."""
        self.close_input()
        if self._process.stdout is not None:
            self._process.stdout.close()
        try:
            self._process.wait(_LOOK_SECONDS * 20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stderr is not None
        self._process.stderr.close()

    def _read_errors(self) -> None:
        errors = self._process.stderr
        assert errors is not None
        for data in iter(lambda: errors.read1(_BLOCK), b""):  # type: ignore[attr-defined]
            self._errors += data


def _copy(source: Path, target: Path, progress: Progress | None) -> None:
    try:
        files.make_folder(target.parent)
        with files.replacing(target) as temp:
            shutil.copyfile(source, temp)
    except OSError as error:
        raise HostError("copy", str(target), error.strerror or str(error)) from error
    if progress:
        progress(target.stat().st_size)


def _cannot(argv: Sequence[str], error: OSError) -> Completed:
    """Say it like a shell."""
    code = 126 if isinstance(error, PermissionError) else 127
    return Completed(tuple(argv), code, b"", f"{argv[0]}: {error.strerror}\n".encode())
