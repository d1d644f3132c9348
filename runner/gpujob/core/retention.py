"""Which checkpoints to let go: a function of the list."""

from __future__ import annotations

from collections.abc import Sequence

from gpujob.core.records import CheckpointRef

FEWEST = 2
"""Never fewer: the newest may turn out damaged, and then the one before is all there is."""


def to_drop(checkpoints: Sequence[CheckpointRef], keep: int) -> list[CheckpointRef]:
    """Give the checkpoints that go, oldest first; the newest `keep` stay, and never fewer than two.

    Newest is by generation, then step: an attempt that had to pass over damaged checkpoints goes on from a lower
    step, and what it commits must outlive them. The order of `checkpoints` does not matter.
    """
    oldest_first = sorted(checkpoints, key=lambda ref: (ref.generation, ref.step))
    return oldest_first[: max(0, len(oldest_first) - max(keep, FEWEST))]
