"""Checkpoint folders on the local disk: a name exists only when everything in it does."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gpujob.core.layout import COMPLETE, step_in_name

KEPT = 2
"""The newest is what an attempt on this machine goes on from; the one before may still be on its way to the store."""

_SAVING = ".saving"


class Checkpoints:
    """The checkpoints of this attempt below one folder."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder, self._clock = folder, clock
        self.saving = folder / _SAVING
        """Where the trainer writes; its name ends in no step, so that nobody takes it for a checkpoint."""
        self.save_seconds = 0.0
        self.newest: int | None = None

    @contextmanager
    def commit(self, step: int) -> Iterator[Path]:
        """Give the folder to fill; when it is full it gets its name, in one move, and old ones go.

        The body writes into the path given (named checkpoint-<step>, as transformers does). If it raises, nothing
        has changed.
        """
        began = self._clock()
        shutil.rmtree(self.saving, ignore_errors=True)
        unfinished = self.saving / f"checkpoint-{step}"
        unfinished.mkdir(parents=True)
        yield unfinished
        (unfinished / COMPLETE).touch()
        target = self.folder / unfinished.name
        self._drop(target)
        unfinished.rename(target)
        self.newest = step
        for old in self.complete()[KEPT:]:
            self._drop(old)
        shutil.rmtree(self.saving, ignore_errors=True)
        self.save_seconds = self._clock() - began

    def complete(self) -> list[Path]:
        """List the checkpoints that are whole, newest first."""
        found = {path: step_in_name(path.name) for path in self.folder.iterdir() if (path / COMPLETE).exists()}
        return sorted((path for path in found if found[path] is not None), key=lambda path: found[path] or 0)[::-1]

    def _drop(self, folder: Path) -> None:
        """Take a checkpoint's name away in one move; its bytes may go slowly."""
        if folder.exists():
            folder.rename(self.saving / f"old-{folder.name}")
