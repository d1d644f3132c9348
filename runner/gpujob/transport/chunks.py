"""Cutting bytes where their content says so: an edit changes the chunks it touches and no others.

A cut comes after a line end whose next bytes hash to a multiple of 8 (FastCDC, Xia et al. 2016, with line ends as
candidates, so that the search runs in C). Data without line ends is cut at the longest length.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

SHORTEST, LONGEST = 8 << 10, 256 << 10
_AHEAD = 16
_MASK = 7
_PACKED = struct.Struct("<QI")


class Chunk(NamedTuple):
    """A piece of a file: the first 8 bytes of its blake3, and where it lies. A whole file's own digest is the proof."""

    hash: int
    offset: int
    length: int


def cut(data: mmap.mmap | bytes) -> Iterator[Chunk]:
    """Cut a whole file."""
    start, size = 0, len(data)
    while start < size:
        end = _end(data, start, size)
        yield Chunk(hash_of(data[start:end]), start, end - start)
        start = end


def _end(data: mmap.mmap | bytes, start: int, size: int) -> int:
    last = min(start + LONGEST, size)
    at = start + SHORTEST
    while at < last:
        at = data.find(b"\n", at, last) + 1
        if at == 0:
            return last
        if zlib.crc32(data[at : at + _AHEAD]) & _MASK == 0:
            return at
    return last


def hash_of(data: bytes) -> int:
    """Give a chunk's hash."""
    from blake3 import blake3

    return int.from_bytes(blake3(data).digest(8), "little")


def pack(chunks: Iterable[Chunk]) -> bytes:
    """Write a file's chunks as bytes."""
    return b"".join(_PACKED.pack(chunk.hash, chunk.length) for chunk in chunks)


def unpack(packed: bytes) -> list[Chunk]:
    """Read them; raises ValueError when the bytes are not whole."""
    if len(packed) % _PACKED.size:
        raise ValueError("a list of chunks is cut short")
    found, offset = [], 0
    for number, length in _PACKED.iter_unpack(packed):
        found.append(Chunk(number, offset, length))
        offset += length
    return found
