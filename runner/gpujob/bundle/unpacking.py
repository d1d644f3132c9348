"""Getting a part of a bundle onto a machine: every name is distrusted, every byte compared with its digest."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from gpujob import files
from gpujob.bundle import blobs
from gpujob.bundle.threads import map_all, one_at_a_time
from gpujob.core.errors import Damaged, HostError
from gpujob.core.layout import blob
from gpujob.core.records import FileEntry
from gpujob.core.units import show_bytes
from gpujob.store.protocol import Progress, Store

_DIGEST = re.compile(r"[0-9a-f]{64}")


def fetch(
    store: Store,
    entries: Sequence[FileEntry],
    folder: Path,
    local: Sequence[Path] = (),
    progress: Progress | None = None,
) -> None:
    """Make `folder` hold exactly `entries`: what is right is kept, what is extra removed, the rest fetched.

    Bytes found below the `local` files and folders are copied instead of downloaded. `folder` belongs to this call
    alone while it runs. Raises Damaged naming the entry that cannot be a file's name, whose content is not in the
    store, or whose bytes differ; HostError when the disk is too small or fails. Safe to call again after any error.
    """
    _check(entries)
    try:
        _tidy(folder, {entry.path for entry in entries})
        missing = [entry for entry in entries if not _keep(folder, entry)]
        _check_space(folder, missing)
        here = _contents(local, missing)
    except OSError as error:
        raise _disk(str(folder), error) from error
    tell = one_at_a_time(progress)
    left = [entry for entry in missing if not _copy(here.get(entry.blake3), folder, entry, tell)]
    _check_blobs(store, left)
    map_all(lambda entry: _download(store, folder, entry, tell), left)


def _check(entries: Sequence[FileEntry]) -> None:
    """Refuse a list that no folder can hold, or that reaches out of it."""
    names, folders = {entry.path for entry in entries}, {parent for entry in entries for parent in _parents(entry.path)}
    if len(names) != len(entries):
        raise Damaged("unpack", "the bundle", "a name is in it twice")
    for entry in entries:
        files.inside(Path(), entry.path)
        if entry.path in folders:
            raise Damaged("unpack", entry.path, "it is a file and a folder")
        if not _DIGEST.fullmatch(entry.blake3):
            raise Damaged("unpack", entry.path, "its digest is none")


def _parents(name: str) -> list[str]:
    return [parent.as_posix() for parent in PurePosixPath(name).parents[:-1]]


def _tidy(folder: Path, names: Collection[str]) -> None:
    """Remove all that is not one of the files, links above all: afterwards every path below `folder` is real."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        folder.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    folders = {parent for name in names for parent in _parents(name)}
    todo = [folder]
    while todo:
        for path in list(todo.pop().iterdir()):
            name = path.relative_to(folder).as_posix()
            if path.is_dir() and not path.is_symlink():
                if name in folders:
                    todo.append(path)
                else:
                    shutil.rmtree(path)
            elif path.is_symlink() or not path.is_file() or name not in names:
                path.unlink()


def _mode(entry: FileEntry) -> int:
    return 0o755 if entry.executable else 0o644


def _keep(folder: Path, entry: FileEntry) -> bool:
    path = files.inside(folder, entry.path)
    if not files.matches(path, entry):
        return False
    if bool(path.stat().st_mode & 0o100) != entry.executable:
        path.chmod(_mode(entry))
    return True


def _check_space(folder: Path, missing: Iterable[FileEntry]) -> None:
    needed, free = sum(entry.size for entry in missing), shutil.disk_usage(folder).free
    if needed > free:
        cause = f"{show_bytes(needed)} are needed and {show_bytes(free)} are free"
        raise HostError("unpack", str(folder), cause, "rent a machine with a bigger disk")


def _contents(places: Iterable[Path], missing: Iterable[FileEntry]) -> Mapping[str, Path]:
    """Index by digest the files of this machine that may be among the missing ones, going by their size."""
    wanted = {entry.size for entry in missing}
    found: dict[str, Path] = {}
    for place in places if wanted else ():
        for path in [place] if place.is_file() else files.regular_files(place):
            with suppress(OSError):
                if path.stat().st_size in wanted:
                    found[files.digest(path)] = path
    return found


def _copy(source: Path | None, folder: Path, entry: FileEntry, progress: Progress) -> bool:
    """Copy a file of this machine; False when it is not there any more, or another one by now."""
    if source is None:
        return False
    with suppress(OSError, Damaged), files.replacing(files.inside(folder, entry.path), _mode(entry)) as temp:
        shutil.copyfile(source, temp)
        _verify(temp, entry)
        progress(entry.size)
        return True
    return False


def _check_blobs(store: Store, left: Sequence[FileEntry]) -> None:
    """Find what is missing or cut short in the store before the first byte is fetched."""
    there = blobs.sizes(store, {entry.blake3 for entry in left})
    for entry in left:
        size = there.get(entry.blake3)
        if size != entry.size:
            cause = "its content is not in the store" if size is None else f"its content has {size} bytes there"
            raise Damaged("unpack", entry.path, cause, "submit the job again from the machine that has the files")


def _download(store: Store, folder: Path, entry: FileEntry, progress: Progress) -> None:
    path, key = files.inside(folder, entry.path), blob(entry.blake3)
    try:
        with files.replacing(path, _mode(entry)) as temp:
            if entry.size <= blobs.IN_MEMORY:
                temp.write_bytes(store.get(key))
                progress(entry.size)
            else:
                # The store puts a file of its own in the temporary one's place, with a mode of its own.
                store.get_file(key, temp, progress)
                temp.chmod(_mode(entry))
            _verify(temp, entry)
    except OSError as error:
        raise _disk(entry.path, error) from error


def _verify(path: Path, entry: FileEntry) -> None:
    if not files.matches(path, entry):
        cause, hint = "its bytes are not those of its digest", f"delete {blob(entry.blake3)} and submit the job again"
        raise Damaged("unpack", entry.path, cause, hint)


def _disk(target: str, error: OSError) -> HostError:
    return HostError("unpack", target, (error.strerror or str(error)).lower())
