"""The one place where a store is asked again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from gpujob.core.errors import StoreUnavailable
from gpujob.store.protocol import ObjectInfo, Progress, Store

T = TypeVar("T")

ATTEMPTS = 5
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0


class Retrying:
    """A store that asks again, a few times and with growing random pauses, when the inner one was unavailable.

    A conditional put is never repeated: it may have won although its answer was lost, and the second try would say
    that somebody else did.
    """

    def __init__(self, inner: Store, sleep: Callable[[float], None] = time.sleep, attempts: int = ATTEMPTS) -> None:
        self.url, self.capabilities = inner.url, inner.capabilities
        self._inner, self._sleep, self._attempts = inner, sleep, attempts

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Read an object, or a range of it."""
        return self._again(lambda: self._inner.get(key, start=start, length=length))

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write an object; once only when there is a condition."""
        if if_absent or if_match is not None:
            return self._inner.put(key, data, if_absent=if_absent, if_match=if_match)
        return self._again(lambda: self._inner.put(key, data))

    def put_file(self, key: str, path: Path, progress: Progress | None = None) -> None:
        """Upload a file, from its start each time."""
        onward = _Onward(progress)
        self._again(lambda: self._inner.put_file(key, path, onward.new_try()))

    def get_file(self, key: str, path: Path, progress: Progress | None = None) -> None:
        """Download an object, from its start each time."""
        onward = _Onward(progress)
        self._again(lambda: self._inner.get_file(key, path, onward.new_try()))

    def head(self, key: str) -> ObjectInfo:
        """Describe an object."""
        return self._again(lambda: self._inner.head(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """List objects; a list that broke off is begun again."""
        return iter(self._again(lambda: [*self._inner.list(prefix)]))

    def delete(self, key: str) -> None:
        """Delete an object."""
        self._again(lambda: self._inner.delete(key))

    def _again(self, call: Callable[[], T]) -> T:
        import tenacity

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(StoreUnavailable),
            stop=tenacity.stop_after_attempt(self._attempts),
            wait=tenacity.wait_random_exponential(multiplier=_FIRST_PAUSE, max=_LONGEST_PAUSE),
            sleep=self._sleep,
            reraise=True,
        )
        return retrying(call)


class _Onward:
    """Tells of bytes once, however often they are sent."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress, self._told = progress, 0

    def new_try(self) -> Progress | None:
        """Give the progress of one more try: silent until it is beyond the earlier ones."""
        if self._progress is None:
            return None
        tell, moved = self._progress, 0

        def count(more: int) -> None:
            nonlocal moved
            moved += more
            if moved > self._told:
                tell(moved - self._told)
                self._told = moved

        return count
