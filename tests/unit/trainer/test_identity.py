from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpujob.core.errors import ResumeRefused
from gpujob.core.records import TrainTask
from gpujob.trainer.identity import changed_versions, new_note, read_note


def task(inputs: str = "abc", **train: Any) -> TrainTask:
    settings = {"model": "m/x", "data": {"path": "rows.jsonl"}, **train}
    return TrainTask.model_validate({"train": settings, "data": "rows.jsonl", "model": "m", "inputs_digest": inputs})


def checkpoint(folder: Path, *, step: int = 4, state: int = 4, **train: Any) -> Path:
    folder.mkdir()
    note = new_note(task(**train)).model_copy(update={"step": step})
    (folder / "gpujob.json").write_bytes(note.encode())
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": state}))
    return folder


def test_the_same_training_goes_on(tmp_path: Path) -> None:
    assert read_note(checkpoint(tmp_path / "checkpoint-4"), task()).step == 4
    assert read_note(checkpoint(tmp_path / "resume"), task()).step == 4


def test_every_difference_is_named(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "checkpoint-4", lora={"r": 8})
    with pytest.raises(ResumeRefused) as refused:
        read_note(folder, task("other", seed=1, lora={"r": 16}))
    assert refused.value.cause == (
        "train.lora.r was 8 and is now 16; train.seed was 42 and is now 1; "
        "the rows or the model's files are not those it was made with"
    )


@pytest.mark.parametrize(("name", "state"), [("checkpoint-5", 4), ("resume", 3)])
def test_files_of_different_steps_are_refused(name: str, state: int, tmp_path: Path) -> None:
    with pytest.raises(ResumeRefused, match="its files are of different steps"):
        read_note(checkpoint(tmp_path / name, state=state), task())


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResumeRefused, match="it is no checkpoint of this trainer"):
        read_note(tmp_path, task())


def test_other_versions_are_listed() -> None:
    note = new_note(task())
    assert not changed_versions(note)
    older = note.model_copy(update={"versions": {**note.versions, "torch": "2.0.0"}})
    assert changed_versions(older) == [f"torch 2.0.0 -> {note.versions['torch']}"]
