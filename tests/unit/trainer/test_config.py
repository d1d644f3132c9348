from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from gpujob.core.spec import Train
from gpujob.trainer.endings import Ended


def make(**args: Any) -> Any:
    import torch

    from gpujob.trainer.config import make_config
    from gpujob.trainer.model import Precision

    train = Train.model_validate({"model": "m/x", "data": {"path": "rows.jsonl"}, "args": args})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_config(train, Path("checkpoints"), Precision(torch.float32, autocast=False), cpu=True)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("adam_beta3", 0.9, "train.args.adam_beta3: SFTConfig has no such field; did you mean adam_beta"),
        ("zzz", 1, "train.args.zzz: SFTConfig has no such field"),
        ("save_steps", 5, "train.args.save_steps: not here: checkpoint: says when, and gpujob saves"),
        ("learning_rate", 1e-3, "train.args.learning_rate: not here: say train.learning_rate"),
        ("bf16", True, "train.args.bf16: not here: say train.dtype"),
        ("ignore_data_skip", True, "train.args.ignore_data_skip: not here: a resumed run would see other rows"),
        ("train_sampling_strategy", "group_by_length", "train.args.train_sampling_strategy: group_by_length cannot"),
        ("packing_strategy", "wrapped", "train.args.packing_strategy: wrapped cannot be used: it lets rows"),
        ("adam_beta1", "high", "train.args.adam_beta1: 'high' is of a wrong kind"),
        ("optim", "adamx", "train.args: adamx is not a valid OptimizerNames, please select one of"),
    ],
)
def test_what_is_refused_and_why(name: str, value: Any, sentence: str) -> None:
    with pytest.raises(Ended) as ended:
        make(**{name: value})
    assert ended.value.verdict.reason.value == "BAD_SPEC"
    assert ended.value.verdict.sentence.startswith(sentence)


def test_the_defaults_that_matter_are_ours() -> None:
    config = make(adam_beta2=0.95)
    assert config.adam_beta2 == 0.95
    assert not config.bf16
    assert not config.gradient_checkpointing
    assert config.logging_steps == 1
    assert not config.logging_nan_inf_filter
    assert config.report_to == []
    assert config.save_strategy == "no"
    assert config.dataset_kwargs == {"skip_prepare_dataset": True}
    assert make(packing=True).dataset_kwargs == {"skip_prepare_dataset": False}
