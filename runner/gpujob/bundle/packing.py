"""Turning folders of this machine into a bundle: a list of files by content, and where each content lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gpujob.bundle.digests import bundle_digest
from gpujob.bundle.hashes import HashCache
from gpujob.bundle.selection import SECRET, SelectedFile, Selection, cannot_be_named, select, select_all
from gpujob.bundle.threads import map_all, one_at_a_time
from gpujob.core.errors import CheckError
from gpujob.core.layout import APP, CODE
from gpujob.core.records import Bundle, FileEntry
from gpujob.store.protocol import Progress


@dataclass(frozen=True, slots=True)
class Packed:
    """A bundle and its bytes: `sources` gives a file of this machine for each digest, `selections` what was chosen."""

    bundle: Bundle
    sources: Mapping[str, Path]
    selections: Mapping[str, Selection]

    @property
    def selection(self) -> Selection | None:
        """What was chosen of the code, with what was left out; None when no code travels."""
        return self.selections.get(CODE)

    @property
    def digest(self) -> str:
        """The blake3 of everything that travels."""
        return bundle_digest(self.bundle)

    @property
    def total_bytes(self) -> int:
        """The size of all files of all parts."""
        return sum(entry.size for entries in self.bundle.parts.values() for entry in entries)


def app_part() -> Path:
    """Give gpujob's own package folder, to be packed as the part `app`; unpacked, the part is a PYTHONPATH."""
    return Path(__file__).resolve().parent.parent


def pack(parts: Mapping[str, Path], progress: Progress | None = None, cache: Path | None = None) -> Packed:
    """Hash the files of each part; `cache` is a file in which the digests of big files are remembered.

    Raises CheckError when a part is not there or holds what cannot travel, Damaged naming a file that changes
    meanwhile. `progress` is told of bytes hashed.
    """
    selections = {part: _choose(part, path) for part, path in parts.items()}
    hashes, tell = HashCache(cache), one_at_a_time(progress)
    found: dict[str, tuple[FileEntry, ...]] = {}
    sources: dict[str, Path] = {}
    for part, chosen in selections.items():
        found[part] = _hash(chosen, hashes, tell)
        sources.update({entry.blake3: chosen.root / entry.path for entry in found[part]})
    hashes.save()
    return Packed(Bundle(parts=found), sources, selections)


def _hash(chosen: Selection, hashes: HashCache, progress: Progress) -> tuple[FileEntry, ...]:
    describe = hashes.describe
    return tuple(map_all(lambda file: describe(chosen.root / file.path, file.path, progress), chosen.files))


def _choose(part: str, path: Path) -> Selection:
    if part == CODE:
        return select(path)
    chosen = _one_file(path) if path.is_file() else select_all(path, clutter=part != APP, links=_hub_blobs(path))
    # A secret is better missing than sent; anything else that is missing would be noticed on paid time.
    missing = next((each for each in chosen.left_out if each.why != SECRET), None)
    if missing:
        raise CheckError("pack", f"{part} {path}", f"{missing.path}: {missing.why}", "copy it, or move it away")
    return _below_its_own_name(chosen) if part == APP else chosen


def _one_file(path: Path) -> Selection:
    if bad := cannot_be_named(path.name):
        raise CheckError("pack", repr(str(path)), bad)
    return Selection(path.parent, (SelectedFile(path.name, path.stat().st_size),))


def _hub_blobs(folder: Path) -> tuple[Path, ...]:
    """Give the folder the links of a Hugging Face cache snapshot lead into."""
    snapshots = folder.resolve().parent
    return (snapshots.parent / "blobs",) if snapshots.name == "snapshots" else ()


def _below_its_own_name(chosen: Selection) -> Selection:
    """Name the files from the folder above, so that the part holds the package and not its content."""
    root = chosen.root
    files = tuple(SelectedFile(f"{root.name}/{file.path}", file.size) for file in chosen.files)
    return replace(chosen, root=root.parent, files=files)
