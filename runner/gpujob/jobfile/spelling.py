"""From a key that is not known to the one that was meant."""

from __future__ import annotations

import difflib

from gpujob.jobfile.fields import EACH, fields, siblings
from gpujob.jobfile.tree import Path

_FOREIGN = {
    "extends": "extend include includes inherit base import",
    "name": "title job_name job_id experiment run_name",
    "hosts": "resources machine machines gpu gpus accelerators instance cluster fleets",
    "image": "container docker docker_image container_image image_id",
    "workdir": "working_dir workingdir code cwd",
    "data": "file_mounts files mounts volumes",
    "run": "command commands cmd entrypoint script",
    "setup": "init install prepare pre_run before_script requirements",
    "store": "bucket storage output_dir checkpoint_dir artifacts results_dir",
    "env": "envs environment environ env_vars variables",
    "secrets": "secret secret_env tokens",
    "notify": "notifications notification alerts webhook",
    "recovery": "retry retries job_recovery spot_recovery",
    "recovery.max_failures": "max_restarts max_retries max_restarts_on_errors restarts",
    "checkpoint.interval": "save_steps save_interval checkpoint_interval save_every",
    "checkpoint.keep": "save_total_limit keep_last max_to_keep",
    "limits.duration": "timeout max_duration max_runtime time_limit walltime max_hours max_time",
    "limits.cost": "max_cost budget max_price cost_limit",
    "limits.stall": "stall_timeout idle_duration",
    "hosts.ssh": "host hostname address ip",
    "hosts.price_per_hour": "price hourly_price dph cost_per_hour",
    "train.method": "task trainer stage training_type",
    "train.model": "model_name_or_path base_model model_name model_id pretrained_model_name_or_path",
    "train.data": "dataset datasets dataset_name",
    "train.data.path": "data_path dataset_path train_file train_data file",
    "train.data.validation": "validation_file eval_dataset val_set_size test_size validation_split val eval valid",
    "train.adapter": "peft use_peft finetuning_type adapter_type",
    "train.lora.r": "lora_r lora_rank rank",
    "train.lora.alpha": "lora_alpha",
    "train.lora.dropout": "lora_dropout",
    "train.lora.target_modules": "lora_target_modules lora_target lora_modules",
    "train.learning_rate": "lr max_lr",
    "train.lr_scheduler_type": "lr_scheduler scheduler",
    "train.warmup_steps": "warmup_ratio warmup",
    "train.num_train_epochs": "epochs num_epochs n_epochs epoch",
    "train.max_steps": "steps num_steps max_train_steps num_train_steps",
    "train.per_device_train_batch_size": "batch_size micro_batch_size train_batch_size",
    "train.gradient_accumulation_steps": "gradient_accumulation grad_accum grad_accumulation",
    "train.max_length": "max_seq_length max_seq_len sequence_len cutoff_len seq_len block_size",
    "train.max_grad_norm": "grad_clip gradient_clipping max_norm",
    "train.dtype": "bf16 fp16 torch_dtype precision mixed_precision",
    "train.seed": "random_seed",
    "train.eval_steps": "eval_interval eval_every",
}
_MEANT = {foreign: target for target, words in _FOREIGN.items() for foreign in words.split()}


def meant(path: Path) -> str:
    """Give the key most likely meant by the unknown one at `path`; dotted from the top unless it stands beside it.

    Empty when none is near.
    """
    key, beside, elsewhere = str(path[-1]).lower().replace("-", "_"), siblings(path), _leaves()
    if foreign := _MEANT.get(key):
        own = foreign.rpartition(".")[2]
        return own if own in beside else foreign
    if near := difflib.get_close_matches(key, beside, n=1, cutoff=0.7):
        return near[0]
    near = difflib.get_close_matches(key, elsewhere, n=1, cutoff=0.8)
    return elsewhere[near[0]] if near else ""


def advice(path: Path) -> str:
    """Say what to write instead of the unknown key at `path`."""
    if target := meant(path):
        return f"did you mean {target}?"
    if path[0] == "train" and len(path) == 2:
        return "a further field of SFTConfig goes under train.args"
    return f"the keys here are {', '.join(siblings(path))}"


def _leaves() -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(fields(), key=len, reverse=True):
        found[str(path[-1])] = ".".join(str(step) for step in path if step != EACH)
    return found
