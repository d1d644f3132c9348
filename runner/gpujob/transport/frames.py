"""What goes over a pipe between sender and receiver: messages to agree on what is missing, frames with the bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

LEVEL = 1
LARGEST = 64 << 20
_LENGTH = struct.Struct("<I")
_FRAME = struct.Struct("<III")
_PIECE = struct.Struct("<32sQI")

Read = Callable[[int], bytes]
"""Gives exactly so many bytes, fewer only at the end."""


class Piece(NamedTuple):
    """Bytes of one blob, from `offset` on."""

    digest: str
    offset: int
    length: int


def message(value: Any, rest: bytes = b"") -> bytes:
    """Write JSON, and bytes that go with it."""
    from zstandard import ZstdCompressor

    words = json.dumps(value).encode()
    packed = ZstdCompressor(LEVEL).compress(_LENGTH.pack(len(words)) + words + rest)
    return _LENGTH.pack(len(packed)) + packed


def read_message(read: Read) -> tuple[Any, bytes]:
    """Read one; raises EOFError at the end, ValueError for what is none."""
    from zstandard import ZstdDecompressor, ZstdError

    (length,) = _LENGTH.unpack(_exactly(read, _LENGTH.size))
    if length > LARGEST:
        raise ValueError("a message is too long")
    try:
        data = ZstdDecompressor().decompress(_exactly(read, length), max_output_size=LARGEST)
    except ZstdError as error:
        raise ValueError("a message cannot be read") from error
    (words,) = _LENGTH.unpack_from(data)
    return json.loads(data[4 : 4 + words]), data[4 + words :]


def frame(pieces: Sequence[Piece], data: bytes) -> bytes:
    """Write pieces of blobs; `data` is theirs, one after the other."""
    from zstandard import ZstdCompressor

    packed = ZstdCompressor(LEVEL).compress(data)
    head = b"".join(_PIECE.pack(bytes.fromhex(each.digest), each.offset, each.length) for each in pieces)
    return _FRAME.pack(len(pieces), len(data), len(packed)) + head + packed


def read_frame(read: Read) -> tuple[list[Piece], bytes] | None:
    """Read one; None at the end, ValueError for what is none."""
    from zstandard import ZstdDecompressor, ZstdError

    head = read(_FRAME.size)
    if not head:
        return None
    count, size, length = _FRAME.unpack(head)
    if max(count * _PIECE.size, size, length) > LARGEST:
        raise ValueError("a frame is too long")
    raw = _exactly(read, count * _PIECE.size)
    pieces = [Piece(digest.hex(), offset, length) for digest, offset, length in _PIECE.iter_unpack(raw)]
    try:
        data = ZstdDecompressor().decompress(_exactly(read, length), max_output_size=max(size, 1))
    except ZstdError as error:
        raise ValueError("a frame cannot be read") from error
    if sum(piece.length for piece in pieces) != len(data):
        raise ValueError("a frame's lengths do not add up")
    return pieces, data


def _exactly(read: Read, size: int) -> bytes:
    data = read(size)
    if len(data) != size:
        raise EOFError
    return data
