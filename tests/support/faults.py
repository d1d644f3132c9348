"""A store that fails when it is told to: before a call reached the inner store, or after, as when an answer is lost.

store = FaultyStore(MemoryStore())
store.fail("put", StoreUnavailable("write", "x", "no answer"), at=2, after=True, key="head.json")
...
assert store.count("put") == 3
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from gpujob.store.protocol import Capabilities, ObjectInfo, Progress, Store

T = TypeVar("T")

METHODS = ("get", "put", "put_file", "get_file", "head", "list", "delete")


@dataclass
class _Fault:
    method: str
    key: str
    first: int
    last: int
    after: bool
    act: Callable[[], None]
    seen: int = 0

    def due(self, method: str, key: str) -> bool:
        if method != self.method or self.key not in key:
            return False
        self.seen += 1
        return self.first <= self.seen <= self.last


class FaultyStore:
    """Passes every call on, counts it, and fails where `fail` said so."""

    def __init__(self, inner: Store, conditional: bool | None = None) -> None:
        self.inner, self.url = inner, inner.url
        self.capabilities = inner.capabilities if conditional is None else Capabilities(conditional)
        self.calls: list[tuple[str, str]] = []
        self._faults: list[_Fault] = []

    def fail(
        self, method: str, error: Exception, at: int = 1, times: int = 1, after: bool = False, key: str = ""
    ) -> None:
        """Raise `error` at the `at`-th call from now of `method` with `key` in its key, and the `times` - 1 next ones.

        `after=True` lets the inner call happen first: it worked, and its answer is lost.
        """

        def act() -> None:
            raise error

        self.run(method, act, at, times, after, key)

    def run(
        self, method: str, act: Callable[[], None], at: int = 1, times: int = 1, after: bool = False, key: str = ""
    ) -> None:
        """Run `act` there instead: what another process does at the worst moment. It may call the inner store."""
        assert method in METHODS, method
        self._faults.append(_Fault(method, key, at, at + times - 1, after, act))

    def count(self, method: str) -> int:
        """Give the number of calls of a method so far."""
        return len(self.keys(method))

    def keys(self, method: str) -> list[str]:
        """Give the keys a method was called with, in order."""
        return [key for name, key in self.calls if name == method]

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        return self._do("get", key, lambda: self.inner.get(key, start=start, length=length))

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        return self._do("put", key, lambda: self.inner.put(key, data, if_absent=if_absent, if_match=if_match))

    def put_file(self, key: str, path: Path, progress: Progress | None = None) -> None:
        self._do("put_file", key, lambda: self.inner.put_file(key, path, progress))

    def get_file(self, key: str, path: Path, progress: Progress | None = None) -> None:
        self._do("get_file", key, lambda: self.inner.get_file(key, path, progress))

    def head(self, key: str) -> ObjectInfo:
        return self._do("head", key, lambda: self.inner.head(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._do("list", prefix, lambda: self.inner.list(prefix))

    def delete(self, key: str) -> None:
        self._do("delete", key, lambda: self.inner.delete(key))

    def _do(self, method: str, key: str, call: Callable[[], T]) -> T:
        self.calls.append((method, key))
        due = [fault for fault in self._faults if fault.due(method, key)]
        for fault in due:
            if not fault.after:
                fault.act()
        result = call()
        for fault in due:
            if fault.after:
                fault.act()
        return result
