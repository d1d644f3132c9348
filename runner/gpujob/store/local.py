"""A store in a folder, for any number of processes that may be killed at any moment.

Every change takes its last step, a rename or a removal, under one lock between processes (the kernel lets go of it
when its holder dies). So a condition is checked and kept in one step; the bytes were written and synced before.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from stat import S_ISREG

from gpujob import files, locks
from gpujob.core.errors import StoreError
from gpujob.store.failures import already_exists, another_version, disk, no_such_object
from gpujob.store.keys import OWN, check_conditions, check_key, check_prefix
from gpujob.store.protocol import Capabilities, ObjectInfo, Progress

_LOCK = f"{OWN}lock"
_TICK = 1_000_000
"""Nanoseconds below which a file's time stamp is made random, so that no two versions share one."""
_NO_FILE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class LocalStore:
    """Objects as files below a folder, which the first write makes."""

    capabilities = Capabilities(conditional=True)

    def __init__(self, folder: Path) -> None:
        self._root = folder.absolute()
        self.url = self._root.as_uri()

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Read an object, or a range of it."""
        path = self._path(key)
        with disk("read", key):
            try:
                with path.open("rb") as file:
                    file.seek(start)
                    return file.read(-1 if length is None else length)
            except _NO_FILE:
                raise no_such_object("read", key) from None

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write an object, if the condition holds; give its etag."""
        path = self._path(key)
        check_conditions(if_absent, if_match)

        def swap(temp: Path, target: Path) -> None:
            with locks.locked(self._lock):
                if if_absent and target.exists():
                    raise already_exists(key)
                if if_match is not None and (not target.exists() or _etag(target.stat()) != if_match):
                    raise another_version(key)
                os.replace(temp, target)

        with disk("write", key), files.replacing(path, swap=swap) as temp:
            temp.write_bytes(data)
            return _stamp(temp)

    def put_file(self, key: str, path: Path, progress: Progress | None = None) -> None:
        """Copy a file in. Never a link: its owner may write on."""
        target = self._path(key)
        with path.open("rb") as reader, disk("write", key), files.replacing(target, swap=self._swap) as temp:
            expected = os.fstat(reader.fileno()).st_size
            with temp.open("wb") as writer:
                moved = files.pour(reader, writer, progress or (lambda count: None))
            if moved != expected:
                raise StoreError("upload", str(path), f"it changed from {expected} to {moved} bytes meanwhile")
            _stamp(temp)

    def get_file(self, key: str, path: Path, progress: Progress | None = None) -> None:
        """Copy an object out."""
        source = self._path(key)
        with disk("read", key):
            try:
                reader = source.open("rb")
            except _NO_FILE:
                raise no_such_object("read", key) from None
        with reader, files.replacing(path) as temp, temp.open("wb") as writer:
            files.pour(reader, writer, progress or (lambda count: None))

    def head(self, key: str) -> ObjectInfo:
        """Describe an object."""
        path = self._path(key)
        with disk("find", key):
            try:
                stat = path.stat()
            except _NO_FILE:
                raise no_such_object("find", key) from None
        if not S_ISREG(stat.st_mode):
            raise no_such_object("find", key)
        return _info(key, stat)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """List the objects there are now."""
        folder = self._root / check_prefix(prefix)
        found = []
        for parent, _, names in os.walk(folder):
            base = Path(parent).relative_to(self._root)
            for key in ((base / name).as_posix() for name in names if not name.startswith(OWN)):
                if key.startswith(prefix):
                    with disk("list", key), suppress(FileNotFoundError):
                        found.append(_info(key, (self._root / key).stat()))
        return iter(sorted(found, key=lambda info: info.key))

    def delete(self, key: str) -> None:
        """Delete an object, and the folders that this leaves empty."""
        path = self._path(key)
        if not self._root.is_dir():
            return
        with disk("delete", key), locks.locked(self._lock):
            try:
                path.unlink(missing_ok=True)
            except NotADirectoryError:
                return
            for folder in path.relative_to(self._root).parents[:-1]:
                with suppress(OSError):
                    (self._root / folder).rmdir()

    @cached_property
    def _lock(self) -> Path:
        """The lock of every change. Asked for by this process's first one, which sweeps up after the killed ones."""
        files.sweep(self._root)
        return self._root / _LOCK

    def _swap(self, temp: Path, target: Path) -> None:
        with locks.locked(self._lock):
            os.replace(temp, target)

    def _path(self, key: str) -> Path:
        return self._root / check_key(key)


def _stamp(temp: Path) -> str:
    """Give a finished file a time stamp nobody else has, and with it its etag.

    Disks stamp by a clock that stands still for milliseconds and use inodes again: two versions could look alike.
    """
    stat = temp.stat()
    stamp = stat.st_mtime_ns - stat.st_mtime_ns % _TICK + secrets.randbelow(_TICK)
    os.utime(temp, ns=(stamp, stamp))
    return _etag(temp.stat())


def _etag(stat: os.stat_result) -> str:
    return f"{stat.st_ino:x}-{stat.st_mtime_ns:x}-{stat.st_size:x}"


def _info(key: str, stat: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key, stat.st_size, _etag(stat), stat.st_mtime)
