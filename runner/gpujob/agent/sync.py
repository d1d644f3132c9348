"""Making checkpoints durable beside the training: one upload at a time, always of the newest whole one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpujob import files
from gpujob.agent import complete
from gpujob.agent.clock import Clock
from gpujob.agent.complete import Found, Shape
from gpujob.agent.work import Work
from gpujob.core.errors import Damaged, Fenced, StoreError
from gpujob.store.protocol import Progress


class Publish(Protocol):
    """Commits a folder as the checkpoint of a step; raises Fenced, StoreError or Damaged."""

    def __call__(self, folder: Path, step: int, made_at: float, progress: Progress) -> object:
        """Commit it."""
        ...


@dataclass(frozen=True, slots=True)
class Durable:
    """The newest durable checkpoint: its step, and when it was made."""

    step: int = 0
    made_at: float | None = None


class Sync:
    """Looks at the program's checkpoint folder with every `tick` and publishes in the background.

    Nothing at or below the newest durable step is sent. Checkpoints that are overtaken while an upload runs are
    skipped. `newest` is the newest step seen here. `failure` is why the last try failed, since `failing_since`
    (monotonic). After a Fenced nothing more is sent.
    """

    def __init__(
        self,
        folder: Path,
        staging: Path,
        durable: Durable,
        publish: Publish,
        *,
        clock: Clock,
        wake: Callable[[], None],
        pause: float,
    ) -> None:
        self._folder, self._staging, self._publish = folder, staging, publish
        self._clock, self._wake, self._pause = clock, wake, pause
        self.durable = durable
        self.newest = 0
        self.fenced: Fenced | None = None
        self.failure: Exception | None = None
        self.failing_since: float | None = None
        self.moved_at = self._not_before = clock.monotonic()
        self._seen: dict[Path, Shape] = {}
        self._work: Work[Durable | None] | None = None

    def tick(self, *, settled: bool = False) -> bool:
        """Go on; says whether there is anything left to send. `settled`: nobody writes there any more."""
        if self._work is not None and self._work.is_done():
            self._collect(self._work)
        if self._work is not None or self.fenced:
            return self._work is not None
        candidates = list(complete.find(self._folder, self.durable.step))
        self.newest = max([self.newest, *(found.step for found in candidates)])
        ready = [found for found in candidates if settled or self._seen.get(found.folder) == found.shape]
        self._seen = {found.folder: found.shape for found in candidates}
        if ready and self._clock.monotonic() >= self._not_before:
            self._begin(ready[0])
        return bool(candidates)

    def forgive(self) -> None:
        """Forget earlier failures and try again at once."""
        self.failure = self.failing_since = None
        self._not_before = self._clock.monotonic()

    def _begin(self, found: Found) -> None:
        self._work = Work(lambda: self._send(found), self._wake, f"checkpoint-{found.step}", gentle=True)

    def _send(self, found: Found) -> Durable | None:
        """Publish from hard links, which the program's own clean-up cannot pull away; None when it was quicker."""
        staged = self._staging / found.folder.name
        files.remove_tree(staged)
        try:
            for name, _, _ in found.shape:
                files.link_or_copy(found.folder / name, staged / name)
            if complete.shape(found.folder) != found.shape:
                return None
            self._publish(staged, found.step, found.made_at, self._moved)
        except FileNotFoundError:
            return None
        finally:
            files.remove_tree(staged)
        return Durable(found.step, found.made_at)

    def _collect(self, work: Work[Durable | None]) -> None:
        self._work = None
        try:
            self.durable = work.result() or self.durable
        except Fenced as error:
            self.fenced = error
        except (StoreError, Damaged, OSError) as error:
            self.failure = error
            now = self._clock.monotonic()
            self.failing_since = now if self.failing_since is None else self.failing_since
            self._not_before = now + self._pause
        else:
            self.failure = self.failing_since = None

    def _moved(self, count: int) -> None:
        self.moved_at = self._clock.monotonic()
