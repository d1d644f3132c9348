"""Shipping growing files to the store as numbered segments that are never changed once a reader may have seen them."""

from __future__ import annotations

from pathlib import Path
from threading import Lock

from gpujob.agent.redact import Redactor
from gpujob.agent.tail import Tail
from gpujob.core.layout import AttemptKeys
from gpujob.store.protocol import Store

LARGEST_SEGMENT = 1 << 20


class Stream:
    """One file on its way. Segments end where lines end."""

    def __init__(self, store: Store, keys: AttemptKeys, name: str, path: Path, redactor: Redactor) -> None:
        self._store, self._keys, self._name, self._redactor = store, keys, name, redactor
        self._tail = Tail(path, LARGEST_SEGMENT)
        self._next: int | None = None
        self._pending = b""

    def ship(self, *, all_of_it: bool = False) -> None:
        """Send what is new; raises StoreError, and then goes on at the same place with the next call."""
        while self._pending or (data := self._tail.read(torn=all_of_it)):
            # An answer may be lost after the segment arrived, so it must be the same bytes again.
            self._pending = self._pending or self._redactor.data(data)
            number = self._first_free() if self._next is None else self._next
            self._store.put(self._keys.segment(self._name, number), self._pending)
            self._next, self._pending = number + 1, b""

    def _first_free(self) -> int:
        there = [info.key for info in self._store.list(self._keys.segments(self._name))]
        self._next = int(there[-1].rpartition("/")[2]) + 1 if there else 1
        return self._next


class Streams:
    """All streams of an attempt."""

    def __init__(self, store: Store, keys: AttemptKeys, paths: dict[str, Path], redactor: Redactor) -> None:
        self._streams = [Stream(store, keys, name, path, redactor) for name, path in paths.items()]
        self._lock = Lock()

    def ship(self, *, all_of_it: bool = False) -> None:
        """Send what is new of every stream; raises StoreError."""
        with self._lock:
            for stream in self._streams:
                stream.ship(all_of_it=all_of_it)
