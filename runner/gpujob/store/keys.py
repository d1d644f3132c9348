"""Which keys an object may have, the same in every store."""

from __future__ import annotations

OWN = ".gpujob-"
"""No segment of a key starts so: a store keeps its lock and unfinished writes under such names."""

_MAX_SEGMENT = 255
"""Bytes; what a file name may have."""
_MAX_KEY = 900
"""Bytes; S3 takes 1024, of which the store's own prefix is a part."""


def check_key(key: str) -> str:
    """Give `key` back; raises ValueError unless every store can hold it.

    It is relative and UTF-8, with no empty, `.` or `..` segment, no control character, and not too long.
    """
    segments = key.split("/")
    if (
        any(part in ("", ".", "..") or part.startswith(OWN) or _size(part) > _MAX_SEGMENT for part in segments)
        or any(ord(char) < 32 or ord(char) == 127 for char in key)
        or _size(key) > _MAX_KEY
    ):
        raise ValueError(f"{key[:300]!r} cannot be a key")
    return key


def check_prefix(prefix: str) -> str:
    """Give the folder of the keys that start with `prefix`; raises ValueError when there can be none."""
    check_key(f"{prefix}x")
    return prefix.rpartition("/")[0]


def check_conditions(if_absent: bool, if_match: str | None) -> None:
    """Raise ValueError when both conditions are given: they exclude each other."""
    if if_absent and if_match is not None:
        raise ValueError("if_absent and if_match exclude each other")


def _size(text: str) -> int:
    return len(text.encode())
