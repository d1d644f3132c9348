from __future__ import annotations

from pathlib import Path

import pytest

from gpujob.core.layout import step_in_name
from gpujob.trainer.commit import Checkpoints


def save(checkpoints: Checkpoints, step: int, text: str = "x") -> None:
    with checkpoints.commit(step) as folder:
        (folder / "weights").write_text(text)


def save_half(checkpoints: Checkpoints, step: int) -> None:
    with checkpoints.commit(step) as folder:
        assert step_in_name(folder.parent.name) is None
        (folder / "weights").write_text("half")
        raise OSError("disk full")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_two_newest_stay(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (2, 8, 16):
        save(checkpoints, step)
    assert names(tmp_path) == ["checkpoint-16", "checkpoint-8"]
    assert names(tmp_path / "checkpoint-16") == ["COMPLETE", "weights"]


def test_a_save_that_breaks_off_leaves_no_name(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1)
    with pytest.raises(OSError, match="full"):
        save_half(checkpoints, 2)
    assert names(tmp_path) == [".saving", "checkpoint-1"]
    save(checkpoints, 3)
    assert names(tmp_path) == ["checkpoint-1", "checkpoint-3"]


def test_a_step_saved_again_replaces_itself(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 5, "old")
    save(checkpoints, 5, "new")
    assert (tmp_path / "checkpoint-5" / "weights").read_text() == "new"
    assert names(tmp_path) == ["checkpoint-5"]
