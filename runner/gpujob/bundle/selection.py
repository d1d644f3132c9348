"""Which files of a folder travel, and what a person should know about those that do not."""

from __future__ import annotations

import os
import stat
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pathspec import GitIgnoreSpec

from gpujob.bundle import ignore, never
from gpujob.bundle.ignore import IgnoreFile
from gpujob.core.errors import CheckError
from gpujob.core.units import show_bytes

BIG_BYTES = 100_000_000
MANY_FILES = 10_000
SECRET = "a secret by its name; `secrets:` in job.yaml is how a job gets one"

_UNNAMABLE = ("its name holds a backslash or a control character", "its name is not UTF-8")


class SelectedFile(NamedTuple):
    """A file that travels: its name relative to the root, with `/`, and its size in bytes."""

    path: str
    size: int


class Remark(NamedTuple):
    """Something about one file or folder, in words that follow its name."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Selection:
    """What travels of `root`, in order of name.

    `left_out` is what a person may miss: secrets, links that lead nowhere good, what cannot be read or named. What
    ignore files and the list of clutter leave out is not in it. `odd` is what should be looked at before paying.
    """

    root: Path
    files: tuple[SelectedFile, ...]
    left_out: tuple[Remark, ...] = ()
    odd: tuple[Remark, ...] = ()

    @property
    def total_bytes(self) -> int:
        """The size of all files."""
        return sum(file.size for file in self.files)


def select(root: Path) -> Selection:
    """Choose the files of a workdir that travel: not ignored, no clutter, no secret.

    Raises CheckError when `root` is no folder.
    """
    own = ignore.name_for(root)
    outer = ignore.above(root.resolve()) if own == ignore.GIT_NAME else []
    return _Walk(root, (never.HISTORY, never.CLUTTER), own).run(outer)


def select_all(root: Path, *, clutter: bool = True, links: Sequence[Path] = ()) -> Selection:
    """Choose every file of a folder but version control, secrets and, where not wanted, clutter.

    Links may also lead into the folders `links`.
    """
    specs = (never.HISTORY,) if clutter else (never.HISTORY, never.CLUTTER)
    return _Walk(root, specs, None, links).run([])


class _Place(NamedTuple):
    """A folder still to be looked through; `name` is "" or ends with `/`."""

    path: Path
    name: str
    ignores: list[IgnoreFile]
    linked: bool = False


class _Walk:
    """One pass over a tree."""

    def __init__(
        self, root: Path, silent: Iterable[GitIgnoreSpec], ignore_name: str | None, links: Sequence[Path] = ()
    ) -> None:
        if not root.is_dir():
            raise CheckError("pack", str(root), "there is no such folder")
        self._root, self._silent, self._ignore_name = root, tuple(silent), ignore_name
        self._allowed = [folder.resolve() for folder in (root, *links)]
        self._files: list[SelectedFile] = []
        self._left_out: list[Remark] = []
        self._todo: list[_Place] = []

    def run(self, ignores: list[IgnoreFile]) -> Selection:
        """Walk the tree below the root."""
        self._todo.append(_Place(self._root, "", ignores))
        while self._todo:
            self._folder(self._todo.pop())
        files, left_out = tuple(sorted(self._files)), tuple(sorted(self._left_out))
        unnamable = (remark for remark in left_out if remark.why in _UNNAMABLE)
        return Selection(self._root, files, left_out, (*unnamable, *_odd(files)))

    def _folder(self, place: _Place) -> None:
        try:
            if self._ignore_name and (found := ignore.read(place.path / self._ignore_name, place.name)):
                place = place._replace(ignores=[*place.ignores, found])
            with os.scandir(place.path) as entries:
                for entry in entries:
                    self._entry(place, entry)
        except OSError as error:
            self._leave(place.name or ".", _cannot_read(error))

    def _entry(self, place: _Place, entry: os.DirEntry[str]) -> None:
        name, path = place.name + entry.name, place.path / entry.name
        secret = never.matches(never.SECRETS, name)
        if any(never.matches(spec, name) for spec in self._silent):
            return
        if not secret and ignore.ignored(place.ignores, name, entry.is_dir(follow_symlinks=False)):
            return
        why = SECRET if secret else cannot_be_named(name)
        if not why and entry.is_symlink():
            why, place = self._cannot_follow(place, path), place._replace(linked=True)
        try:
            why = why or self._add(place, name, path)
        except OSError as error:
            why = _cannot_read(error)
        if why:
            self._leave(name, why)

    def _add(self, place: _Place, name: str, path: Path) -> str | None:
        """Take a file, or a folder to look through later; says why not."""
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            if never.is_our_store(path):
                return "a store of gpujob"
            self._todo.append(place._replace(path=path, name=f"{name}/"))
        elif not stat.S_ISREG(status.st_mode):
            return "not a file: a pipe, a socket or a device"
        elif not os.access(path, os.R_OK):
            return "it cannot be read: permission denied"
        else:
            self._files.append(SelectedFile(name, status.st_size))
        return None

    def _cannot_follow(self, place: _Place, link: Path) -> str | None:
        """Say why a link does not travel as a copy of what it leads to; None when it does."""
        try:
            target = link.resolve(strict=True)
        except (OSError, RuntimeError):
            return "a link that leads nowhere"
        home = next((folder for folder in self._allowed if target.is_relative_to(folder)), None)
        if home is None:
            return "a link that leads out of the folder"
        inner = target.relative_to(home).as_posix()
        if any(never.matches(spec, inner) for spec in (*self._silent, never.SECRETS)):
            return "a link to something that never travels"
        if target.is_dir() and (place.linked or place.path.resolve().is_relative_to(target)):
            # Each such step could multiply the tree, or never end.
            return "a link to a folder, within a folder that is itself reached by a link or lies in that folder"
        return None

    def _leave(self, name: str, why: str) -> None:
        self._left_out.append(Remark(_printable(name), why))


def _cannot_read(error: OSError) -> str:
    return f"it cannot be read: {(error.strerror or str(error)).lower()}"


def cannot_be_named(name: str) -> str | None:
    """Say why a name cannot be had on every machine; files.inside refuses the same ones on the other side."""
    if "\\" in name or any(ord(char) < 32 for char in name):
        return _UNNAMABLE[0]
    if any("\ud800" <= char <= "\udfff" for char in name):
        return _UNNAMABLE[1]
    return None


def _printable(name: str) -> str:
    return name if name.isprintable() else name.encode("unicode_escape", "backslashreplace").decode()


def _odd(files: Sequence[SelectedFile]) -> list[Remark]:
    found = [Remark(file.path, f"a big file: {show_bytes(file.size)}") for file in files if file.size > BIG_BYTES]
    if len(files) > MANY_FILES:
        found.append(Remark(".", f"very many files: {len(files)}"))
    same: dict[str, list[str]] = defaultdict(list)
    for file in files:
        same[unicodedata.normalize("NFC", file.path).casefold()].append(file.path)
    found.extend(
        Remark(first, f"the same name on a disk that ignores case or accents: {', '.join(others)}")
        for first, *others in same.values()
        if others
    )
    return found
