"""What leaves this computer with a job, told before it does."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpujob.core.units import show_bytes

if TYPE_CHECKING:
    from gpujob.bundle import Packed, Remark

_BIGGEST = 5
_WORTH_NAMING = 1_000_000
_MOST_REMARKS = 20


def report(packed: Packed) -> dict[str, Any]:
    """Give what travels as plain values: files and bytes of each part, the biggest files, what stays, what is odd."""
    sizes = {part: [entry.size for entry in entries] for part, entries in packed.bundle.parts.items()}
    every = [(entry.size, f"{part}/{entry.path}") for part, all_ in packed.bundle.parts.items() for entry in all_]
    return {
        "files": len(every),
        "bytes": packed.total_bytes,
        "parts": {part: {"files": len(each), "bytes": sum(each)} for part, each in sizes.items()},
        "biggest": [{"path": path, "bytes": size} for size, path in sorted(every, reverse=True)[:_BIGGEST]],
        "left_out": _remarks(packed, "left_out"),
        "odd": _remarks(packed, "odd"),
    }


def sentences(travels: dict[str, Any]) -> Iterable[str]:
    """Say it in lines."""
    parts = ", ".join(f"{name} {_amount(part)}" for name, part in travels["parts"].items())
    yield f"Travels: {_amount(travels)} ({parts})"
    for each in travels["biggest"]:
        if each["bytes"] >= _WORTH_NAMING:
            yield f"  {show_bytes(each['bytes']):>9}  {each['path']}"
    for title, remarks in (("Stays here", travels["left_out"]), ("Look at", travels["odd"])):
        for each in remarks[:_MOST_REMARKS]:
            yield f"{title}: {each['path']} ({each['why']})"
        if len(remarks) > _MOST_REMARKS:
            yield f"{title}: {len(remarks) - _MOST_REMARKS} more"


def size_of(paths: Iterable[str]) -> int:
    """Give about how many bytes lie below these paths, for a progress bar."""
    return sum(_size(Path(path)) for path in paths)


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                total += Path(folder, name).stat().st_size
    return total


def _amount(part: dict[str, Any]) -> str:
    return f"{part['files']:,} file{'' if part['files'] == 1 else 's'}, {show_bytes(part['bytes'])}"


def _remarks(packed: Packed, kind: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for part, selection in packed.selections.items():
        remarks: tuple[Remark, ...] = getattr(selection, kind)
        found += [{"part": part, "path": remark.path, "why": remark.why} for remark in remarks]
    return found
