"""Every write to a local disk goes through here: atomic, synced, and never outside its folder."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from blake3 import blake3

from gpujob.core.errors import Damaged
from gpujob.core.records import FileEntry

_TEMP = ".gpujob-tmp-"
_CHUNK = 1 << 20


@contextmanager
def replacing(path: Path, mode: int = 0o644) -> Iterator[Path]:
    """Give a temporary path beside `path`; on success it is synced and takes `path`'s place, else it is removed.

    After a kill at any point `path` holds the old content or the new, never a part.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = path.parent / f"{_TEMP}{secrets.token_hex(6)}"
    try:
        temp.touch(mode=mode, exist_ok=False)
        yield temp
        with temp.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temp, path)
        sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            temp.unlink()
        raise


def write(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a small file atomically; its permissions are `mode` from the first byte on."""
    with replacing(path, mode) as temp:
        temp.write_bytes(data)


def sync_folder(folder: Path) -> None:
    """Make renames and new names in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sweep(folder: Path) -> int:
    """Remove what killed writers left below `folder`; give the count. Only while nobody writes there."""
    stale = list(folder.rglob(f"{_TEMP}*")) if folder.is_dir() else []
    for temp in stale:
        with suppress(OSError):
            temp.unlink()
    return len(stale)


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
        shutil.copyfileobj(reader, writer, _CHUNK)


def remove_tree(folder: Path) -> None:
    """Remove a folder and all below it; one that is not there is fine. Never follows a symbolic link."""
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)
