"""Every write to a local disk goes through here: atomic, synced, and never outside its folder."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from blake3 import blake3

from gpujob.core.errors import Damaged
from gpujob.core.records import FileEntry

_TEMP = ".gpujob-tmp-"
_CHUNK = 1 << 20
_KERNEL_CHUNK = 64 << 20
_PATIENCE = 100

Swap = Callable[[Path, Path], None]
"""Puts its first path, a finished file, in the place of its second, in one step."""


@contextmanager
def replacing(path: Path, mode: int = 0o644, swap: Swap = os.replace) -> Iterator[Path]:
    """Give a temporary path beside `path`; on success it is synced and takes `path`'s place, else it is removed.

    After a kill at any point `path` holds the old content or the new, never a part. `swap(temp, path)` does the last
    step; it may refuse by raising. Inside another `replacing` the outer temporary itself is given: it is nobody's yet.
    """
    if is_temp(path):
        yield path
        return
    temp, handle = _new_temp(path.parent, mode)
    try:
        yield temp
        _sync(temp)
        swap(temp, path)
        with suppress(FileNotFoundError):  # already deleted again by somebody, with its folder
            sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            temp.unlink()
        raise
    finally:
        os.close(handle)


def _new_temp(folder: Path, mode: int) -> tuple[Path, int]:
    """Make a temporary file, locked for as long as its writer lives: that is how `sweep` knows the dead ones."""
    for patience in reversed(range(_PATIENCE)):
        temp = folder / f"{_TEMP}{secrets.token_hex(6)}"
        try:
            make_folder(folder)
            handle = os.open(temp, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        except FileNotFoundError:
            if patience:
                continue  # somebody removed the empty folder again
            raise
        with suppress(OSError):  # a disk without locks: `sweep` leaves its files alone as well
            fcntl.flock(handle, fcntl.LOCK_EX)
        if temp.exists():
            return temp, handle
        os.close(handle)  # swept before it was locked
    raise FileNotFoundError(errno.ENOENT, "its temporary file is removed again and again", str(folder))


def write(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a small file atomically; its permissions are `mode` from the first byte on."""
    with replacing(path, mode) as temp:
        temp.write_bytes(data)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, each of them durable; one that is there is fine."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and new names in `folder` durable."""
    _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sweep(folder: Path) -> int:
    """Remove what killed writers left below `folder`; give the count. Writes that are going on are left alone."""
    found = (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return sum(_remove_abandoned(path) for path in found if is_temp(path))


def _remove_abandoned(temp: Path) -> bool:
    try:
        handle = os.open(temp, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        temp.unlink()
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def is_temp(path: Path) -> bool:
    """Say whether a name is one of our unfinished writes."""
    return path.name.startswith(_TEMP)


def digest(path: Path, progress: Callable[[int], None] | None = None) -> str:
    """Give the blake3 of a file, hex."""
    hasher = blake3()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            hasher.update(chunk)
            if progress:
                progress(len(chunk))
    return hasher.hexdigest()


def digest_bytes(data: bytes) -> str:
    """Give the blake3 of bytes, hex."""
    return blake3(data).hexdigest()


def describe(path: Path, name: str) -> FileEntry:
    """Hash one file into an entry called `name`."""
    stat = path.stat()
    return FileEntry(path=name, size=stat.st_size, blake3=digest(path), executable=bool(stat.st_mode & 0o100))


def regular_files(folder: Path) -> list[Path]:
    """List the regular files below `folder`, sorted; symbolic links and unfinished writes are left out."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and not is_temp(path))
    return sorted(found)


def describe_tree(folder: Path) -> tuple[FileEntry, ...]:
    """Hash every regular file below `folder`."""
    return tuple(describe(path, path.relative_to(folder).as_posix()) for path in regular_files(folder))


def matches(path: Path, entry: FileEntry) -> bool:
    """Say whether `path` is a regular file with exactly the bytes of `entry`."""
    try:
        return not path.is_symlink() and path.stat().st_size == entry.size and digest(path) == entry.blake3
    except OSError:
        return False


def inside(folder: Path, name: str) -> Path:
    """Join a name that somebody else chose; raises Damaged when it would leave `folder`.

    Absolute names, `..`, empty parts, backslashes, NUL and other control characters are refused.
    """
    parts = PurePosixPath(name).parts
    bad = not parts or name.startswith("/") or ".." in parts or "\\" in name or any(ord(char) < 32 for char in name)
    if bad or PurePosixPath(name).as_posix() != name:
        raise Damaged("use the file name", repr(name[:200]), "it would leave its folder or cannot be a file's name")
    return folder.joinpath(*parts)


def link_or_copy(source: Path, target: Path) -> None:
    """Make `target` hold `source`'s bytes: a hard link where the disk allows, else an atomic copy."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:
        copy(source, target)


def copy(source: Path, target: Path) -> None:
    """Copy a file's bytes and executable bit, atomically."""
    mode = 0o755 if source.stat().st_mode & 0o100 else 0o644
    with replacing(target, mode) as temp, source.open("rb") as reader, temp.open("wb") as writer:
        pour(reader, writer)


def pour(reader: BinaryIO, writer: BinaryIO, progress: Callable[[int], None] = lambda count: None) -> int:
    """Copy the bytes of one freshly opened file to another, in the kernel where it can; give their count."""
    total = 0
    try:
        # Not on every system; a copy-on-write disk shares the blocks instead of copying them.
        while count := os.copy_file_range(reader.fileno(), writer.fileno(), _KERNEL_CHUNK):
            total += count
            progress(count)
    except (AttributeError, OSError):
        if total:
            raise
    # All of them where the kernel cannot; else the rest, which is none.
    while chunk := reader.read(_CHUNK):
        writer.write(chunk)
        total += len(chunk)
        progress(len(chunk))
    return total


def remove_tree(folder: Path) -> None:
    """Remove a folder and all below it; one that is not there is fine. Never follows a symbolic link."""
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)
