"""The train section of job.yaml -> SFTConfig. Every default of a library that matters here is set on purpose."""

from __future__ import annotations

import difflib
import typing
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from trl import SFTConfig

from gpujob.core.spec import Train
from gpujob.trainer.endings import bad_spec
from gpujob.trainer.model import Precision, first_line

_HAS_OWN_NAME = {name: f"say train.{name}" for name in Train.model_fields if name not in ("args", "model")}

_OWNED = {
    "checkpoint: says when, and gpujob saves": """
        output_dir save_strategy save_steps save_total_limit save_on_each_node save_only_model enable_jit_checkpoint
        restore_callback_states_from_checkpoint resume_from_checkpoint load_best_model_at_end metric_for_best_model
        greater_is_better""",
    "the store is where results go": """
        push_to_hub hub_model_id hub_token hub_strategy hub_private_repo hub_always_push hub_revision""",
    "the built-in trainer runs on one device": "deepspeed fsdp fsdp_config parallelism_config local_rank ddp_backend",
    "say train.eval_steps": "eval_strategy do_eval eval_on_start eval_delay do_predict do_train",
    "every step is logged into metrics.jsonl": """
        report_to run_name project logging_strategy logging_steps logging_first_step logging_nan_inf_filter
        logging_dir disable_tqdm include_num_input_tokens_seen""",
    "say train.seed": "data_seed full_determinism",
    "say train.dtype": "bf16 fp16 bf16_full_eval fp16_full_eval use_cpu",
    "say train.gradient_checkpointing": "activation_checkpointing",
    "gpujob builds the rows itself, with the loss on the replies only": """
        dataset_text_field dataset_kwargs dataset_num_proc eos_token pad_token chat_template_path truncation_mode
        completion_only_loss assistant_only_loss shuffle_dataset padding_free eval_packing remove_unused_columns""",
    "gpujob loads the model itself, and runs no code out of one": "model_init_kwargs trust_remote_code",
    "a resumed run would see other rows or other numbers than one that ran through": """
        ignore_data_skip dataloader_persistent_workers auto_find_batch_size group_by_length accelerator_config""",
}
_RESERVED = _HAS_OWN_NAME | {name: why for why, names in _OWNED.items() for name in names.split()}

_INEXACT = {
    "train_sampling_strategy": ({"group_by_length"}, "a resumed run would see the rows in another order"),
    "packing_strategy": ({"wrapped"}, "it lets rows that share a sequence see each other"),
}


def check_args(args: dict[str, Any]) -> None:
    """Refuse what SFTConfig does not have, what gpujob decides itself, and values of a wrong kind."""
    known = {field.name for field in fields(SFTConfig) if field.init}
    kinds = typing.get_type_hints(SFTConfig)
    for name, value in args.items():
        if why := _RESERVED.get(name):
            raise bad_spec(f"train.args.{name}: not here: {why}")
        if name not in known:
            near = difflib.get_close_matches(name, known - _RESERVED.keys(), 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise bad_spec(f"train.args.{name}: SFTConfig has no such field{meant}")
        refused, why = _INEXACT.get(name, (set(), ""))
        if value in refused:
            raise bad_spec(f"train.args.{name}: {value} cannot be used: {why}")
        try:
            TypeAdapter(kinds[name], config=ConfigDict(arbitrary_types_allowed=True)).validate_python(value)
        except ValidationError as error:
            raise bad_spec(f"train.args.{name}: {value!r} is of a wrong kind: {error.errors()[0]['msg']}") from None


def make_config(train: Train, folder: Path, precision: Precision, *, cpu: bool) -> SFTConfig:
    """Give TRL's configuration; checkpoints are written below `folder`. Raises Ended (BAD_SPEC)."""
    check_args(train.args)
    names = {field.name for field in fields(SFTConfig)}
    recompute = "activation_checkpointing" if "activation_checkpointing" in names else "gradient_checkpointing"
    settings = {
        "output_dir": str(folder),
        "learning_rate": train.learning_rate,
        "lr_scheduler_type": train.lr_scheduler_type,
        "warmup_steps": train.warmup_steps,
        "num_train_epochs": train.num_train_epochs,
        "max_steps": train.max_steps or -1,
        "per_device_train_batch_size": train.per_device_train_batch_size,
        "per_device_eval_batch_size": train.per_device_train_batch_size,
        "gradient_accumulation_steps": train.gradient_accumulation_steps,
        "max_length": train.max_length,
        "weight_decay": train.weight_decay,
        "max_grad_norm": train.max_grad_norm,
        "seed": train.seed,
        recompute: train.gradient_checkpointing,
        "bf16": precision.autocast,
        "fp16": False,
        "use_cpu": cpu,
        # Steps are saved, evaluated and stopped at by pace.py, and logged by metrics.py.
        "save_strategy": "no",
        "eval_strategy": "no",
        "logging_strategy": "steps",
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "report_to": "none",
        "disable_tqdm": True,
        # The rows come tokenised, cut and counted; only packing is left to TRL.
        "dataset_kwargs": {"skip_prepare_dataset": not train.args.get("packing")},
        "eval_packing": False,
        "remove_unused_columns": True,
    }
    try:
        return SFTConfig(**{**settings, **train.args})
    except (TypeError, ValueError) as error:
        raise bad_spec(f"train.args: {first_line(error)}") from error
