"""The seam to object storage, owned by checkpoints, bundle, agent and client.

Why it exists: everything that must survive a rental goes through these seven methods, over memory, a folder, S3 or
any URL, and all of them must behave alike in the points below (tests/contract/test_store.py holds each to them).

Contract
    atomic      A put is seen whole or not at all; a failed or killed put leaves the old object or none. A get that
                runs beside puts gives one version, never a mix.
    ordered     A get, head or list that starts after a put returned sees that put.
    conditions  `if_absent` and `if_match` decide atomically between any number of writers, where
                `capabilities.conditional` is true; where it is false they raise StoreError and never pretend.
                `if_match` with no object there raises PreconditionFailed.
    ambiguous   A conditional put whose answer was lost may have won. The retry wrapper therefore never retries
                conditional puts; callers read back and compare the nonce they wrote (checkpoints.head does).
    etags       An etag names one version's content. Where the store makes it from the content alone, writing the old
                bytes again brings the old etag back: what is swapped by `if_match` must carry a fresh nonce.
    ranges      A range that reaches beyond the end gives what there is, `b""` when it starts there.
    errors      NotFound, AlreadyExists, PreconditionFailed, StoreDenied (a person must act), StoreUnavailable (may
                pass), else StoreError; none holds a credential. Nothing else escapes, but for the OSError of the
                caller's own file in put_file and get_file.
    keys        store.keys.check_key says which there can be; any other raises ValueError. A key must not be the
                folder of another ("a" beside "a/b"): some stores hold both, some refuse with StoreError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

Progress = Callable[[int], None]
"""Told how many more bytes have moved. It may raise to break a transfer off: that error comes out as it is."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store can promise."""

    conditional: bool


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object. `etag` names this version of it; `modified` is seconds since the epoch, 0 where nobody knows."""

    key: str
    size: int
    etag: str
    modified: float


class Store(Protocol):
    """Object storage below one URL. `url` holds no credential."""

    url: str
    capabilities: Capabilities

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Read an object, or `length` bytes of it from `start`."""
        ...

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write a small object in one request; give its etag. At most one condition."""
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
        """List the objects whose key starts with `prefix`, in the order of their keys' characters."""
        ...

    def delete(self, key: str) -> None:
        """Delete an object; deleting one that is not there is success."""
        ...
