"""Sending many bytes to a machine: only what it lacks, compressed, over several channels, on from where a cut left it.

Round trips do not grow with the number of files. What already arrived is recognised by its content, so nothing is
remembered here: doing it again is how to go on.
"""

from __future__ import annotations

import mmap
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpujob import files
from gpujob.core.errors import Damaged, HostError
from gpujob.transport import chunks
from gpujob.transport.frames import Piece, frame, message, read_message
from gpujob.transport.protocol import Progress, Running, Transport
from gpujob.transport.receive import LARGE

CHANNELS = 4
_FRAME = 1 << 20

Job = tuple[list[Piece], bytes]


@dataclass(frozen=True, slots=True)
class Sent:
    """What it took: `bytes` of content in `files`, `wire_bytes` as they were sent."""

    bytes: int = 0
    files: int = 0
    wire_bytes: int = 0


def send_blobs(
    transport: Transport,
    receiver: Sequence[str],
    wanted: Mapping[str, Path],
    progress: Progress | None = None,
) -> Sent:
    """Bring files, named by their blake3, into the machine's cache; afterwards all of them are there, whole.

    `receiver` is the command that runs `gpujob.transport.receive CACHE` there. `progress` is told of every byte of
    `wanted`, also of those that need not travel. Raises Damaged naming a file that is not what its digest says (any
    more), HostUnreachable when the connection breaks (go on by calling again), HostError when the disk there is full.
    """
    tell = _one_at_a_time(progress)
    sizes = {digest: _size(path) for digest, path in wanted.items()}
    with transport.start(receiver) as control:
        missing = _ask(control, message(list(sizes.items())))
        tell(sum(sizes.values()) - sum(sizes[digest] for digest in missing))
        lists = {digest: _chunks(wanted[digest]) for digest in missing if sizes[digest] > LARGE}
        packed = {digest: chunks.pack(listed) for digest, listed in lists.items()}
        needed = _ask(
            control, message([[digest, len(data)] for digest, data in packed.items()], b"".join(packed.values()))
        )
        pieces = _pieces(missing, sizes, lists, needed, tell)
        wire = _send(transport, [*receiver, "data"], _frames(pieces, wanted), tell)
        damaged = _ask(control, message("finish"))
        control.wait().check("send files to", transport.name)
    for digest in damaged:
        _explain(transport, wanted[digest], digest)
    sent = sum(sizes[digest] for digest in missing)
    return Sent(sent, len(missing), wire)


def _ask(control: Running, question: bytes) -> Any:
    """Have one exchange; when the other side has ended instead, say what it said."""
    try:
        control.write(question)
        return read_message(_exactly(control))[0]
    except (EOFError, HostError, ValueError) as error:
        with suppress(EOFError):
            control.wait().check("send files to", "the machine", "is its disk full?")
        raise HostError("send files to", "the machine", f"its answer makes no sense: {error}") from error


def _exactly(control: Running) -> Callable[[int], bytes]:
    def read(size: int) -> bytes:
        data = b""
        while len(data) < size and (more := control.read(size - len(data))):
            data += more
        return data

    return read


def _chunks(path: Path) -> list[chunks.Chunk]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return list(chunks.cut(data))


def _pieces(
    missing: Sequence[str],
    sizes: Mapping[str, int],
    lists: Mapping[str, Sequence[chunks.Chunk]],
    needed: Mapping[str, Sequence[int]],
    tell: Progress,
) -> Iterator[Piece]:
    """Name what has to travel; tell of what is there already."""
    for digest in missing:
        if digest not in lists:
            if sizes[digest]:
                yield Piece(digest, 0, sizes[digest])
            continue
        found = [lists[digest][number] for number in needed[digest]]
        tell(sizes[digest] - sum(chunk.length for chunk in found))
        for chunk in found:
            yield Piece(digest, chunk.offset, chunk.length)


def _frames(pieces: Iterator[Piece], wanted: Mapping[str, Path]) -> Iterator[Job]:
    """Read them, so many together that a frame is worth its way."""
    batch: list[Piece] = []
    size = 0
    for piece in pieces:
        batch.append(piece)
        size += piece.length
        if size >= _FRAME:
            yield batch, _read(batch, wanted)
            batch, size = [], 0
    if batch:
        yield batch, _read(batch, wanted)


def _read(batch: Sequence[Piece], wanted: Mapping[str, Path]) -> bytes:
    found = []
    opened: tuple[str, Any] = ("", None)
    try:
        for piece in batch:
            if opened[0] != piece.digest:
                if opened[1]:
                    opened[1].close()
                opened = (piece.digest, wanted[piece.digest].open("rb"))
            opened[1].seek(piece.offset)
            data = opened[1].read(piece.length)
            if len(data) != piece.length:
                raise Damaged("send", str(wanted[piece.digest]), "it changed meanwhile", _AGAIN)
            found.append(data)
    except OSError as error:
        raise Damaged("send", str(wanted[piece.digest]), (error.strerror or str(error)).lower(), _AGAIN) from error
    finally:
        if opened[1]:
            opened[1].close()
    return b"".join(found)


def _send(transport: Transport, argv: Sequence[str], jobs: Iterator[Job], tell: Progress) -> int:
    """Move the frames over several channels; give the bytes that went. The first failure ends them all."""
    todo: queue.Queue[Job | None] = queue.Queue(2 * CHANNELS)
    failures: list[Exception] = []
    sent = [0] * CHANNELS

    def work(number: int) -> None:
        try:
            with ExitStack() as stack:
                running: Running | None = None
                while (job := todo.get()) is not None and not failures:
                    # A channel is opened when there is something for it to do.
                    running = running or stack.enter_context(transport.start(argv))
                    data = frame(*job)
                    _write(running, data, transport)
                    sent[number] += len(data)
                    tell(len(job[1]))
                if running is not None and not failures:
                    running.close_input()
                    running.wait().check("write to", transport.name, "is its disk full?")
        except Exception as error:
            failures.append(error)
            with suppress(queue.Empty):
                while True:
                    todo.get_nowait()

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(CHANNELS)]
    for thread in threads:
        thread.start()
    try:
        for job in jobs:
            if not _hand_over(todo, job, failures):
                break
    except Exception as error:
        failures.insert(0, error)
    finally:
        for _ in threads:
            _hand_over(todo, None, failures)
        for thread in threads:
            while thread.is_alive():
                with suppress(queue.Full):
                    todo.put_nowait(None)
                thread.join(0.05)
    if failures:
        raise failures[0]
    return sum(sent)


def _hand_over(todo: queue.Queue[Job | None], job: Job | None, failures: Sequence[Exception]) -> bool:
    while not failures:
        with suppress(queue.Full):
            todo.put(job, timeout=0.2)
            return True
    return False


def _write(running: Running, data: bytes, transport: Transport) -> None:
    try:
        running.write(data)
    except HostError as error:
        if type(error) is HostError:  # the receiver has ended, and says why
            running.wait().check("write to", transport.name, "is its disk full?")
        raise


def _explain(transport: Transport, path: Path, digest: str) -> None:
    if files.digest(path) != digest:
        raise Damaged("send", str(path), "it changed after it was packed", _AGAIN)
    raise HostError("send", str(path), f"it did not arrive whole on {transport.name}", "try again")


_AGAIN = "submit again once nothing writes to it"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise Damaged("send", str(path), (error.strerror or str(error)).lower(), _AGAIN) from error


def _one_at_a_time(progress: Progress | None) -> Progress:
    lock = threading.Lock()

    def tell(count: int) -> None:
        if progress is not None and count:
            with lock:
                progress(count)

    return tell
