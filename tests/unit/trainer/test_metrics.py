from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpujob.trainer.endings import Ended
from gpujob.trainer.metrics import MetricsLog, batch_hash, step_lines

STATE = SimpleNamespace(global_step=3, max_steps=9)
STEP = {"loss": 1.5, "grad_norm": 0.5, "learning_rate": 1e-4, "seconds": 1.0, "entropy": 2.0}


def test_a_line_per_step_and_per_evaluation(tmp_path: Path) -> None:
    said: list[str] = []
    log = MetricsLog(tmp_path / "metrics.jsonl", said.append)
    log.on_train_begin(None, STATE, None)
    log.on_log(None, STATE, None, STEP)
    log.on_log(None, STATE, None, {"eval_loss": 1.25, "eval_entropy": 3.0})
    log.on_log(None, STATE, None, {"train_runtime": 3.0})
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == [
        {"total_steps": 9, "resumed_step": 3},
        {"step": 3, "total_steps": 9, "loss": 1.5, "grad_norm": 0.5, "learning_rate": 1e-4, "seconds": 1.0},
        {"step": 3, "total_steps": 9, "eval_loss": 1.25},
    ]
    assert said == [
        "step 3/9  loss 1.5000  learning rate 0.0001  1.00 s",
        "step 3/9  loss on the validation rows 1.2500",
    ]


@pytest.mark.parametrize("name", ["loss", "grad_norm"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_ends_the_training_in_strict_json(name: str, value: float, tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl", lambda text: None)
    with pytest.raises(Ended) as ended:
        log.on_log(None, STATE, None, {**STEP, name: value})
    assert ended.value.verdict.reason.value == "DIVERGED"
    assert f"became {value} at step 3" in ended.value.verdict.sentence
    assert json.loads((tmp_path / "metrics.jsonl").read_text())[name] is None


def test_the_log_of_a_training_is_its_steps_and_evaluations() -> None:
    history = [{"step": 1, **STEP}, {"step": 1, "eval_loss": 2.0}, {"step": 1, "train_runtime": 1.0}]
    assert [sorted(line) for line in step_lines(history, 9)] == [
        ["grad_norm", "learning_rate", "loss", "seconds", "step", "total_steps"],
        ["eval_loss", "step", "total_steps"],
    ]


def test_the_batch_hash_is_of_ids_shapes_and_order() -> None:
    import torch

    one, other = torch.tensor([[1, 2], [3, 4]]), torch.tensor([[5, 6]])
    hashes = [
        batch_hash(batches)
        for batches in ([one, other], [other, one], [one.reshape(1, 4), other], [one + 1, other], [one])
    ]
    assert len(set(hashes)) == len(hashes)
    assert batch_hash([one.clone(), other]) == hashes[0]
