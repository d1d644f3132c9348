"""The seam to object storage, owned by checkpoints, bundle, agent and client.

Why it exists: everything that must survive a rental goes through these eight methods, over memory, a folder, S3 or
any URL, and all of them must behave alike in the points below.

Contract
    atomic      A put is seen whole or not at all; a failed or killed put leaves the old object or none.
    ordered     A get, head or list that starts after a put returned sees that put.
    conditions  `if_absent` and `if_match` decide atomically between any number of writers, where
                `capabilities.conditional` is true; where it is false they raise StoreError and never pretend.
    ambiguous   A conditional put whose answer was lost may have won. The retry wrapper therefore never retries
                conditional puts; callers read back and compare the nonce they wrote (checkpoints.head does).
    errors      NotFound, AlreadyExists, PreconditionFailed, StoreDenied (a person must act),
                StoreUnavailable (may pass). Nothing else escapes, and none holds a credential.
    keys        Relative, `/`-separated, no empty, `.` or `..` segment; anything else raises ValueError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

Progress = Callable[[int], None]
"""Told how many more bytes have moved."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store can promise."""

    conditional: bool


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object. `etag` names this version of it; `modified` is seconds since the epoch."""

    key: str
    size: int
    etag: str
    modified: float


class Store(Protocol):
    """Object storage below one URL."""

    url: str
    capabilities: Capabilities

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Read an object, or `length` bytes of it from `start`."""
        ...

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write a small object in one request; give its etag."""
        ...

    def put_file(self, key: str, path: Path, progress: Progress | None = None) -> None:
        """Upload a file of any size (multipart where large), then check that its size arrived. Unconditional."""
        ...

    def get_file(self, key: str, path: Path, progress: Progress | None = None) -> None:
        """Download to `path`, atomically: the file is there whole or not at all."""
        ...

    def head(self, key: str) -> ObjectInfo:
        """Describe an object without reading it."""
        ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """List the objects whose key starts with `prefix`, in key order."""
        ...

    def delete(self, key: str) -> None:
        """Delete an object; deleting one that is not there is success."""
        ...
