"""P1 at its root: a training killed at any moment goes on to the very bits of one that ran through."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpujob.core.records import TrainTask
from support.desk import until
from support.tiny import tiny_rows
from support.training import Attempt, Nursery

pytestmark = pytest.mark.real

ROWS = 50
EPOCH = 12
"""Optimizer steps in one epoch of 45 rows, two in a pass and two passes in a step; the last step has one pass."""
STEPS = 2 * EPOCH - 2
"""In the middle of an epoch: there transformers trains one step too many when a finished run is resumed."""
LORA = {
    "model": "tiny",
    "data": {"path": "train.jsonl", "validation": "10%"},
    "lora": {"r": 4, "alpha": 8, "dropout": 0.1},
    "learning_rate": 0.01,
    "max_steps": STEPS,
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 2,
    "max_length": 64,
    "eval_steps": 5,
    "prompts": ["What is red and green?"],
}
FULL = {**LORA, "adapter": "none", "learning_rate": 0.001, "weight_decay": 0.01, "gradient_checkpointing": True}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_rows(tmp_path_factory.mktemp("rows"), ROWS)


@pytest.fixture(scope="module")
def task(tiny_model: Path, rows: Path) -> TrainTask:
    return make_task(LORA, tiny_model, rows)


@pytest.fixture(scope="module")
def calm(task: TrainTask, tmp_path_factory: pytest.TempPathFactory) -> Attempt:
    """The run that nobody disturbs, started as an agent starts it."""
    attempt = Attempt(tmp_path_factory.mktemp("calm"))
    environ = {**os.environ, **attempt.environ(task, None, 1)}
    done = subprocess.run([sys.executable, "-m", "gpujob.trainer"], env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "45 rows" in done.stdout
    return attempt


def make_task(train: dict[str, Any], model: Path, rows: Path, **other: Any) -> TrainTask:
    fields = {"inputs_digest": "of these files", "interval": "3 steps", **other}
    return TrainTask.model_validate({"train": train, "data": str(rows), "model": str(model), **fields})


def same(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drop from a log what a clock wrote."""
    return [{key: value for key, value in line.items() if key not in ("seconds", "at")} for line in lines]


def result_log(attempt: Attempt) -> list[dict[str, Any]]:
    return same([json.loads(line) for line in (attempt.output / "metrics.jsonl").read_text().splitlines()])


def assert_same_result(one: Attempt, other: Attempt) -> None:
    import torch
    from safetensors.torch import load_file

    files = [path.relative_to(one.output) for path in one.output.rglob("*.safetensors")]
    assert len(files) == 1
    weights, others = load_file(one.output / files[0]), load_file(other.output / files[0])
    assert weights.keys() == others.keys()
    different = [name for name in weights if not torch.equal(weights[name], others[name])]
    assert not different
    assert result_log(one) == result_log(other)


def interrupt(nursery: Nursery, folder: Path, task: TrainTask, signals: list[tuple[int, signal.Signals]]) -> Attempt:
    """Send each signal once its step is logged, going on from the newest whole checkpoint; give the last attempt."""
    resume: Path | None = None
    for number, (step, which) in enumerate(signals, 1):
        attempt = Attempt(folder / str(number))
        pid = nursery.start(attempt, task, resume=resume, number=number)
        until(lambda attempt=attempt, step=step: attempt.step >= step, f"step {step} of attempt {number}")
        os.kill(pid, which)
        code = nursery.wait()
        print(f"attempt {number}: {which.name} at step {attempt.step}, newest checkpoint {attempt.newest}")
        assert code == (-which if which is signal.SIGKILL else 143), attempt.log
        resume = attempt.newest or resume
    last = Attempt(folder / "last")
    assert nursery.run(last, task, resume=resume, number=len(signals) + 1) == 0, last.log
    return last


def test_killed_twice_and_told_to_stop_once(
    calm: Attempt, task: TrainTask, nursery: Nursery, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    # Told to stop at a step that is evaluated: the evaluation is either done or left to the next attempt.
    hits = [
        (rng.randint(1, EPOCH - 2), signal.SIGKILL),
        (rng.choice([10, 15]), signal.SIGTERM),
        (rng.randint(EPOCH + 5, STEPS - 2), signal.SIGKILL),
    ]
    last = interrupt(nursery, tmp_path, task, hits)
    assert_same_result(calm, last)
    told = Attempt(tmp_path / "2")
    assert told.verdict["reason"] == "PREEMPTED"
    assert told.newest
    assert told.newest.name == f"checkpoint-{told.step}"
    assert [line["step"] for line in result_log(last) if "loss" in line] == list(range(1, STEPS + 1))
    assert [line["step"] for line in result_log(last) if "eval_loss" in line] == [5, 10, 15, 20, STEPS]


def test_every_weight_trained_and_killed_in_the_second_epoch(
    tiny_model: Path, rows: Path, nursery: Nursery, tmp_path: Path, seed: int
) -> None:
    task = make_task(FULL, tiny_model, rows)
    calm = Attempt(tmp_path / "calm")
    assert nursery.run(calm, task) == 0, calm.log
    step = random.Random(seed).randint(EPOCH + 1, STEPS - 2)
    last = interrupt(nursery, tmp_path / "storm", task, [(step, signal.SIGKILL)])
    assert_same_result(calm, last)
    assert (last.output / "model" / "config.json").exists()


def test_questions_and_evaluations_leave_no_trace(
    calm: Attempt, tiny_model: Path, rows: Path, nursery: Nursery, tmp_path: Path
) -> None:
    """The same weights without a question asked, without an evaluation on the way, and with other saves."""
    quiet = Attempt(tmp_path)
    task = make_task({**LORA, "prompts": [], "eval_steps": None}, tiny_model, rows, interval=3600.0)
    assert nursery.run(quiet, task) == 0, quiet.log
    steps = [[line for line in result_log(attempt) if "loss" in line] for attempt in (calm, quiet)]
    assert steps[0] == steps[1]
    assert [path.name for path in quiet.checkpoints.glob("checkpoint-*")] == [f"checkpoint-{STEPS}"]


def test_a_finished_run_resumed_trains_no_step(
    calm: Attempt, task: TrainTask, nursery: Nursery, tmp_path: Path
) -> None:
    again = Attempt(tmp_path)
    assert nursery.run(again, task, resume=calm.newest, number=2) == 0, again.log
    assert again.lines == [{"total_steps": STEPS, "resumed_step": STEPS}]
    assert not list(again.checkpoints.glob("checkpoint-*"))
    assert_same_result(calm, again)


@pytest.mark.parametrize(
    ("train", "digest", "named"),
    [
        ({"seed": 43}, "of these files", "train.seed was 42 and is now 43"),
        ({"learning_rate": 0.02}, "of these files", "train.learning_rate was 0.01 and is now 0.02"),
        ({}, "of other files", "the rows or the model's files are not those it was made with"),
    ],
)
def test_another_training_is_refused(
    calm: Attempt,
    tiny_model: Path,
    rows: Path,
    nursery: Nursery,
    tmp_path: Path,
    train: dict[str, Any],
    digest: str,
    named: str,
) -> None:
    attempt = Attempt(tmp_path)
    task = make_task({**LORA, **train}, tiny_model, rows, inputs_digest=digest)
    assert nursery.run(attempt, task, resume=calm.newest, number=2) == 1
    assert attempt.verdict["reason"] == "BAD_SPEC"
    assert named in attempt.verdict["sentence"]
    assert not attempt.lines


def test_what_is_left_at_the_end(calm: Attempt) -> None:
    summary = json.loads((calm.output / "summary.json").read_text())
    assert summary["steps"] == STEPS
    assert summary["rows"] == {"used": 45, "cut": 0, "lost": 0}
    assert summary["replies"][0]["before"] != summary["replies"][0]["after"]
    assert (calm.output / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert (calm.output / "adapter" / "tokenizer.json").exists()
    assert sorted(path.name for path in calm.checkpoints.glob("checkpoint-*")) == [
        f"checkpoint-{STEPS - 1}",
        f"checkpoint-{STEPS}",
    ]
