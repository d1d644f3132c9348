"""Which folders are whole checkpoints: a program leaves them in any state, at any time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpujob import files
from gpujob.core.layout import COMPLETE, step_in_name

TRAINER_STATE = "trainer_state.json"
"""transformers writes this file last in a checkpoint."""
UNFINISHED = "checkpoint-is-incomplete.txt"
"""transformers keeps this file there while it saves on a signal."""

Shape = tuple[tuple[str, int, int], ...]
"""Names, sizes and times of a folder's files; two equal ones in a row mean that nobody is writing."""


@dataclass(frozen=True, slots=True)
class Found:
    """A folder that looks whole. `made_at` is when its last file was written."""

    folder: Path
    step: int
    made_at: float
    shape: Shape


def find(parent: Path, above: int) -> Iterator[Found]:
    """Give the whole checkpoints with a step above `above`, newest first; what vanishes meanwhile is left out."""
    named = [(step_in_name(folder.name), folder) for folder in _folders(parent)]
    for step, folder in sorted(((step, folder) for step, folder in named if step is not None), reverse=True):
        if step > above and (found := _look(folder, step)):
            yield found


def shape(folder: Path) -> Shape | None:
    """Describe a folder's files without reading them; None when one vanished meanwhile."""
    try:
        stats = [(path.relative_to(folder).as_posix(), path.stat()) for path in files.regular_files(folder)]
    except FileNotFoundError:
        return None
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


def _folders(parent: Path) -> list[Path]:
    try:
        return [path for path in parent.iterdir() if path.is_dir() and not path.is_symlink()]
    except FileNotFoundError:
        return []


def _look(folder: Path, step: int) -> Found | None:
    before = shape(folder)
    times = {name: time for name, _, time in before or ()}
    marker = COMPLETE if COMPLETE in times else TRAINER_STATE
    if before is None or marker not in times or UNFINISHED in times:
        return None
    if marker == TRAINER_STATE and not _parses(folder / marker):
        return None
    return Found(folder, step, times[marker] / 1e9, before)


def _parses(path: Path) -> bool:
    try:
        return isinstance(json.loads(path.read_bytes()), dict)
    except (OSError, ValueError, RecursionError):
        return False
