"""`python -m gpujob.transport.receive CACHE [data]`: the receiving end of `bulk`, on the machine.

One process agrees on what is missing (standard input and output), any number of others take the bytes. A blob becomes
visible under its digest only when its bytes have that digest. Beside each large one its list of chunks is kept, so that
the next version of a file is put together from the one before.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpujob import files
from gpujob.core.layout import blob
from gpujob.transport import chunks
from gpujob.transport.chunks import Chunk
from gpujob.transport.frames import Piece, Read, message, read_frame, read_message

LARGE = 64 << 10
"""Blobs above this are sent in chunks."""
_KEPT_LISTS = 200


@dataclass(frozen=True, slots=True)
class Cache:
    """The blobs of one machine; `incoming` holds those that are not whole yet."""

    root: Path

    def path(self, digest: str) -> Path:
        """Give where a blob lies."""
        return self.root / blob(digest)

    def incoming(self, digest: str) -> Path:
        """Give where a blob is put together."""
        return self.root / "incoming" / digest

    def chunks(self, digest: str) -> Path:
        """Give where its list of chunks lies."""
        return self.root / "chunks" / digest

    def has(self, digest: str, size: int) -> bool:
        """Say whether a blob is here."""
        return _size(self.path(digest)) == size

    def admit(self, digest: str, source: Path) -> bool:
        """Make a file visible under its digest, if it has that."""
        if files.digest(source) != digest:
            return False
        files.make_folder(self.path(digest).parent)
        source.replace(self.path(digest))
        return True


def agree(cache: Cache, read: Read) -> Iterator[bytes]:
    """Hold the conversation: what is missing, which chunks of it, and whether all of it came."""
    (wanted, _) = read_message(read)
    missing = [digest for digest, size in wanted if not cache.has(_checked(digest), size)]
    yield message(missing)
    (lists, packed) = read_message(read)
    known, needed, at = _known(cache), {}, 0
    for digest, length in lists:
        needed[_checked(digest)] = _assemble(cache, digest, packed[at : at + length], known)
        at += length
    yield message(needed)
    read_message(read)
    sizes = dict(wanted)
    yield message([digest for digest in missing if not _finish(cache, digest, sizes[digest])])


def take(cache: Cache, read: Read) -> None:
    """Write down every piece that comes."""
    while (got := read_frame(read)) is not None:
        pieces, data = got
        at = 0
        for piece in pieces:
            _write(cache, piece, data[at : at + piece.length])
            at += piece.length


def _write(cache: Cache, piece: Piece, data: bytes) -> None:
    path = cache.incoming(piece.digest)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        os.pwrite(descriptor, data, piece.offset)
    finally:
        os.close(descriptor)


def _assemble(cache: Cache, digest: str, packed: bytes, known: Mapping[int, tuple[Path, int]]) -> list[int]:
    """Start a large blob with the chunks that are here already; give the numbers of those that are not."""
    listed = chunks.unpack(packed)
    path = cache.incoming(digest)
    files.write(cache.chunks(digest), packed)
    # Never emptied: another sender may be at it as well.
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+b") as file:
        os.truncate(file.fileno(), sum(chunk.length for chunk in listed))
        return [number for number, chunk in enumerate(listed) if not _have(file.fileno(), chunk, known)]


def _have(descriptor: int, chunk: Chunk, known: Mapping[int, tuple[Path, int]]) -> bool:
    """Say whether a chunk is in its place, after taking it from another blob if it is there."""
    there = os.pread(descriptor, chunk.length, chunk.offset)
    if chunks.hash_of(there) == chunk.hash:
        return True
    if chunk.hash not in known:
        return False
    path, offset = known[chunk.hash]
    with suppress(OSError), path.open("rb") as other:
        data = os.pread(other.fileno(), chunk.length, offset)
        if chunks.hash_of(data) == chunk.hash:
            os.pwrite(descriptor, data, chunk.offset)
            return True
    return False


def _known(cache: Cache) -> dict[int, tuple[Path, int]]:
    """Index the chunks of the blobs that came last."""
    # Another sender may be writing one, or clearing up, right now.
    lists = sorted((path for path in cache.chunks("").iterdir() if not files.is_temp(path)), key=_age)
    for old in lists[:-_KEPT_LISTS]:
        old.unlink(missing_ok=True)
    found: dict[int, tuple[Path, int]] = {}
    for path in lists[-_KEPT_LISTS:]:
        with suppress(OSError, ValueError):
            here = cache.path(path.name)
            found.update({chunk.hash: (here, chunk.offset) for chunk in chunks.unpack(path.read_bytes())})
    return found


def _finish(cache: Cache, digest: str, size: int) -> bool:
    """Let a blob in when it is whole; also when another sender was faster."""
    path = cache.incoming(digest)
    if not path.exists() and size == 0:
        path.touch()
    with suppress(FileNotFoundError):
        # What the slower of two senders writes after the faster has finished is no blob, and need not be.
        if cache.has(digest, size):
            path.unlink()
        else:
            cache.admit(digest, path)
    return cache.has(digest, size)


def _checked(digest: str) -> str:
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise ValueError("that is no digest")
    return digest


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def main(words: list[str]) -> None:
    """Run either end."""
    cache, source = Cache(Path(words[0])), sys.stdin.buffer
    for folder in (cache.incoming(""), cache.chunks("")):
        files.make_folder(folder)
    if words[1:] == ["data"]:
        return take(cache, source.read)
    for answer in agree(cache, source.read):
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()
    return None


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as error:
        sys.exit(f"{error.strerror}: {error.filename or sys.argv[1]}")
    except (ValueError, EOFError) as error:
        sys.exit(f"what was sent cannot be read: {error}")
