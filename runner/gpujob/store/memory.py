"""A store in this process's memory, for tests and dry runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from gpujob import files
from gpujob.store.failures import already_exists, another_version, no_such_object
from gpujob.store.keys import check_conditions, check_key, check_prefix
from gpujob.store.protocol import Capabilities, ObjectInfo, Progress


class MemoryStore:
    """Objects in a dictionary, safe between threads."""

    capabilities = Capabilities(conditional=True)

    def __init__(self, url: str = "memory://", clock: Callable[[], float] = time.time) -> None:
        self.url, self._clock = url, clock
        self._objects: dict[str, tuple[bytes, ObjectInfo]] = {}
        self._lock = threading.Lock()
        self._versions = 0

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Read an object, or a range of it."""
        return self._find("read", key)[0][start:][:length]

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write an object, if the condition holds; give its etag."""
        check_key(key)
        check_conditions(if_absent, if_match)
        with self._lock:
            old = self._objects.get(key)
            if if_absent and old:
                raise already_exists(key)
            if if_match is not None and (old is None or old[1].etag != if_match):
                raise another_version(key)
            self._versions += 1
            info = ObjectInfo(key, len(data), f'"{self._versions}"', self._clock())
            self._objects[key] = (bytes(data), info)
        return info.etag

    def put_file(self, key: str, path: Path, progress: Progress | None = None) -> None:
        """Keep a file's bytes."""
        check_key(key)
        data = path.read_bytes()
        if progress:
            progress(len(data))
        self.put(key, data)

    def get_file(self, key: str, path: Path, progress: Progress | None = None) -> None:
        """Write an object's bytes to a file."""
        data = self.get(key)
        with files.replacing(path) as temp:
            temp.write_bytes(data)
            if progress:
                progress(len(data))

    def head(self, key: str) -> ObjectInfo:
        """Describe an object."""
        return self._find("find", key)[1]

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """List the objects there are now."""
        check_prefix(prefix)
        with self._lock:
            found = [info for key, (_, info) in self._objects.items() if key.startswith(prefix)]
        return iter(sorted(found, key=lambda info: info.key))

    def delete(self, key: str) -> None:
        """Forget an object."""
        check_key(key)
        with self._lock:
            self._objects.pop(key, None)

    def _find(self, operation: str, key: str) -> tuple[bytes, ObjectInfo]:
        check_key(key)
        with self._lock:
            if key not in self._objects:
                raise no_such_object(operation, key)
            return self._objects[key]


@cache
def shared_memory(url: str) -> MemoryStore:
    """Give the one store of this process that has `url`."""
    return MemoryStore(url)
