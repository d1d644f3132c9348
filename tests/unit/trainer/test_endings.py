"""Every early end of a real training says why, and saves nothing that it should not."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from gpujob.core.records import TrainTask
from support.desk import until
from support.tiny import tiny_model_dir, tiny_rows, tiny_tokenizer
from support.training import Attempt, Nursery

pytestmark = pytest.mark.real


def make_task(folder: Path, model: Path, rows: Path | None = None, **train: Any) -> TrainTask:
    settings = {"model": "some/model", "data": {"path": "train.jsonl"}, "max_steps": 3, "max_length": 64, **train}
    data = rows or tiny_rows(folder / "rows", 20)
    fields = {"train": settings, "data": str(data), "model": str(model), "inputs_digest": "x", "interval": "1 steps"}
    return TrainTask.model_validate(fields)


def ends(nursery: Nursery, folder: Path, task: TrainTask, code: int = 1) -> Attempt:
    attempt = Attempt(folder / "attempt")
    assert nursery.run(attempt, task) == code, attempt.log
    return attempt


def break_weights(model: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    path = model / "model.safetensors"
    weights = load_file(path)
    weights["model.norm.weight"][0] = torch.nan
    save_file(weights, path, metadata={"format": "pt"})


def test_a_loss_that_is_no_number(nursery: Nursery, tmp_path: Path) -> None:
    model = tiny_model_dir(tmp_path / "model")
    break_weights(model)
    attempt = ends(nursery, tmp_path, make_task(tmp_path, model))
    assert attempt.verdict["reason"] == "DIVERGED"
    assert attempt.verdict["sentence"].startswith("the loss became nan at step 1")
    assert attempt.lines[-1]["loss"] is None
    assert attempt.newest is None


def test_weights_too_coarse_to_move(nursery: Nursery, tiny_model: Path, tmp_path: Path) -> None:
    settings = {"adapter": "none", "dtype": "bfloat16", "learning_rate": 1e-12, "warmup_steps": 0}
    attempt = ends(nursery, tmp_path, make_task(tmp_path, tiny_model, **settings))
    assert attempt.verdict["reason"] == "BAD_SPEC"
    assert "step 1 changed none of the" in attempt.verdict["sentence"]
    assert attempt.newest is None


@pytest.mark.parametrize(
    ("name", "settings", "reason", "words"),
    [
        ("nowhere", {}, "BAD_SPEC", "train.model: some/model cannot be loaded"),
        ("", {"lora": {"target_modules": ["q_prj"]}}, "BAD_SPEC", "train.lora: Target modules {'q_prj'} not found"),
        ("", {"lora": {"target_modules": ["lm_head"]}}, "BAD_SPEC", "`lm_head` is not supported"),
        ("", {"args": {"optim": "adamx"}}, "BAD_SPEC", "adamx"),
        ("", {"adapter": "qlora"}, "BAD_SPEC", "qlora is not built in"),
        ("", {"max_length": 4}, "BAD_DATA", "train.jsonl: none of its 20 rows has anything to learn"),
    ],
)
def test_settings_that_cannot_work(
    nursery: Nursery,
    tiny_model: Path,
    tmp_path: Path,
    name: str,
    settings: dict[str, Any],
    reason: str,
    words: str,
) -> None:
    attempt = ends(nursery, tmp_path, make_task(tmp_path, tmp_path / name if name else tiny_model, **settings))
    assert attempt.verdict["reason"] == reason
    assert words in attempt.verdict["sentence"]
    assert "Traceback" not in attempt.log


def test_a_model_whose_files_lack_weights(nursery: Nursery, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    model = tiny_model_dir(tmp_path / "model")
    weights = load_file(model / "model.safetensors")
    del weights["lm_head.weight"]
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
    attempt = ends(nursery, tmp_path, make_task(tmp_path, model))
    assert attempt.verdict["sentence"] == ("train.model: some/model lacks 1 of its weights, lm_head.weight among them")


def test_told_to_stop_it_saves_and_says_so(nursery: Nursery, tiny_model: Path, tmp_path: Path) -> None:
    attempt = Attempt(tmp_path / "attempt")
    pid = nursery.start(attempt, make_task(tmp_path, tiny_model, max_steps=500))
    until(lambda: attempt.step >= 2, "step 2")
    os.kill(pid, signal.SIGTERM)
    assert nursery.wait() == 143
    assert attempt.verdict["reason"] == "PREEMPTED"
    assert attempt.verdict["sentence"] == f"told to stop: step {attempt.step} of 500 is done and saved"
    assert not attempt.output.exists()


def test_packed_rows_and_a_tokenizer_without_a_template(nursery: Nursery, tiny_model: Path, tmp_path: Path) -> None:
    model = shutil.copytree(tiny_model, tmp_path / "model")
    (model / "chat_template.jinja").unlink()
    tiny_tokenizer(model, chat=False)
    data = {"path": "train.jsonl", "validation": "valid.jsonl"}
    task = make_task(tmp_path, model, data=data, prompts=["red?"], args={"packing": True})
    task = task.model_copy(update={"validation": str(tiny_rows(tmp_path / "valid", 7))})
    attempt = ends(nursery, tmp_path, task, code=0)
    summary = json.loads((attempt.output / "summary.json").read_text())
    assert summary["steps"] == 3
    assert (summary["rows"]["used"], summary["validation_rows"]["used"]) == (20, 7)
    assert summary["eval_loss"] == attempt.lines[-1]["eval_loss"]
    assert summary["epochs"] > 1, "twenty rows of thirty tokens are fewer sequences of sixty-four"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MemoryError(), "OOM"),
        (RuntimeError("CUDA error: out of memory"), "OOM"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), "OOM"),
    ],
)
def test_memory_that_ran_out(error: Exception, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gpujob.trainer.run as room
    from gpujob.trainer.contract import read_contract

    def run_out(*_: Any) -> None:
        raise error

    task = make_task(tmp_path, tmp_path, per_device_train_batch_size=4, gradient_accumulation_steps=2)
    attempt = Attempt(tmp_path / "attempt")
    contract = read_contract(attempt.environ(task, None, 1))
    monkeypatch.setattr(room, "_train", run_out)
    assert room.run(contract, lambda text: None) == 1
    assert attempt.verdict["reason"] == reason
    assert "per_device_train_batch_size: 2 with gradient_accumulation_steps: 4" in attempt.verdict["sentence"]


def test_an_operation_without_a_deterministic_form_is_trained_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from trl import SFTTrainer

    from gpujob.trainer.loop import Loop

    strict: list[bool] = []
    said: list[str] = []

    def step(self: Any, model: Any) -> str:
        strict.append(not torch.is_deterministic_algorithms_warn_only_enabled())
        if strict[-1]:
            raise RuntimeError("scan_cuda does not have a deterministic implementation")
        return "loss"

    monkeypatch.setattr(SFTTrainer, "training_step", step)
    loop: Any = object.__new__(Loop)
    loop.strict, loop.say = True, said.append
    try:
        assert loop.training_step(torch.nn.Linear(1, 1)) == "loss"
    finally:
        torch.use_deterministic_algorithms(False)
    assert strict == [True, False]
    assert "may differ in the last bits: scan_cuda" in said[0]


def test_an_error_nobody_foresaw_is_not_dressed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gpujob.trainer.run as room
    from gpujob.trainer.contract import read_contract

    def fail(*_: Any) -> None:
        raise RuntimeError("what is this")

    attempt = Attempt(tmp_path / "attempt")
    contract = read_contract(attempt.environ(make_task(tmp_path, tmp_path), None, 1))
    monkeypatch.setattr(room, "_train", fail)
    with pytest.raises(RuntimeError, match="what is this"):
        room.run(contract, lambda text: None)
    assert not attempt.verdict
