"""Digests remembered between submits, so that a model of gigabytes is read once."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gpujob import files
from gpujob.core.errors import Damaged
from gpujob.core.records import FileEntry
from gpujob.store.protocol import Progress

_WORTH_IT = 1 << 20
"""Below this size a file is read faster than it is looked up and written down."""

_SETTLED = 2_000_000_000
"""Nanoseconds. A file younger than this may change again without its time changing (coarse clocks), so its digest
is not written down."""


class HashCache:
    """Digests keyed by path, size, times and inode, in one JSON file; without a file it only hashes.

    A cache that cannot be read is an empty one. Safe to use from several threads.
    """

    def __init__(self, path: Path | None = None, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._path, self._now_ns = path, now_ns
        self._known: dict[str, list[int | str]] = {}
        if path is not None:
            with suppress(OSError, ValueError):
                known = json.loads(path.read_bytes())
                self._known = known if isinstance(known, dict) else {}
        self._fresh: dict[str, list[int | str]] = {}

    def describe(self, path: Path, name: str, progress: Progress | None = None) -> FileEntry:
        """Hash one file into an entry called `name`; raises Damaged when it changes meanwhile or cannot be read."""
        try:
            status = path.stat()
            state, key = _state(status), str(path.absolute())
            digest = self._remembered(key, state)
            if digest is not None and progress:
                progress(status.st_size)
            digest = digest or files.digest(path, progress)
            changed = _state(path.stat()) != state
        except OSError as error:
            raise Damaged("pack", name, (error.strerror or str(error)).lower()) from error
        if changed:
            raise Damaged("pack", name, "it changed while it was read", "try again once nothing writes to it")
        if status.st_size >= _WORTH_IT and max(status.st_mtime_ns, status.st_ctime_ns) < self._now_ns() - _SETTLED:
            self._fresh[key] = [*state, digest]
        return FileEntry(path=name, size=status.st_size, blake3=digest, executable=bool(status.st_mode & 0o100))

    def save(self) -> None:
        """Write the digests down, with those of earlier runs."""
        if self._path is not None and self._fresh:
            files.write(self._path, json.dumps(self._known | self._fresh).encode())

    def _remembered(self, key: str, state: tuple[int, ...]) -> str | None:
        match self._known.get(key):
            case [*known, str(digest)] if known == list(state):
                return digest
        return None


def _state(status: os.stat_result) -> tuple[int, ...]:
    """Give what changes with a file's content; the change time tells even when the modification time was put back."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev
