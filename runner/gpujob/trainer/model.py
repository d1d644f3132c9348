"""Load the model and its tokenizer, and attach what is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

from gpujob.core.reasons import Reason
from gpujob.core.spec import Adapter, Train
from gpujob.trainer.endings import Ended, bad_spec


@dataclass(frozen=True, slots=True)
class Precision:
    """The number type of the weights, and whether the arithmetic is done in bfloat16 above it."""

    weights: torch.dtype
    autocast: bool

    def __str__(self) -> str:
        name = str(self.weights).removeprefix("torch.")
        return f"{name} with bfloat16 arithmetic" if self.autocast and self.weights is torch.float32 else name


def choose_device() -> torch.device:
    """Give the first GPU, else the CPU."""
    return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def choose_precision(train: Train, device: torch.device) -> Precision:
    """Decide the number types: `auto` is float32 on a CPU, and bfloat16 on a card that has it.

    Where every weight is trained, `auto` keeps the weights in float32 and only computes in bfloat16: an update of
    one part in a thousand would be rounded away in bfloat16 weights.
    """
    if train.dtype == "auto":
        able = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        full = train.adapter is Adapter.NONE
        return Precision(torch.bfloat16 if able and not full else torch.float32, autocast=able)
    weights = torch.bfloat16 if train.dtype == "bfloat16" else torch.float32
    return Precision(weights, autocast=weights is torch.bfloat16)


def load_tokenizer(source: str, name: str) -> Any:
    """Load the tokenizer of a model that a person knows as `name`; raises Ended when it cannot be used."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise _unusable(name, error) from error
    if tokenizer.eos_token_id is None:
        raise bad_spec(f"train.model: {name} has no end-of-text token, so that it could never learn to stop")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    tokenizer.padding_side = "right"
    return tokenizer


def load_model(source: str, name: str, precision: Precision, device: torch.device) -> Any:
    """Load a causal language model onto a device; raises Ended when it cannot be."""
    try:
        model, loading = AutoModelForCausalLM.from_pretrained(source, dtype=precision.weights, output_loading_info=True)
    except (OSError, ValueError, SafetensorError) as error:
        raise _unusable(name, error) from error
    if missing := sorted(loading["missing_keys"]):
        raise bad_spec(f"train.model: {name} lacks {len(missing)} of its weights, {missing[0]} among them")
    # An adapter and a saved model say what they were made from: the name in job.yaml, not a path of this machine.
    model.name_or_path = model.config._name_or_path = name
    return model.to(device)


def attach(model: Any, train: Train) -> Any:
    """Give the model that is trained: with a fresh adapter, or as it is."""
    if train.adapter is Adapter.NONE:
        return model.requires_grad_(True)
    set_seed(train.seed)
    targets = train.lora.target_modules
    lora = LoraConfig(
        r=train.lora.r,
        lora_alpha=train.lora.alpha,
        lora_dropout=train.lora.dropout,
        target_modules=targets if isinstance(targets, str) else list(targets),
        task_type="CAUSAL_LM",
    )
    try:
        return get_peft_model(model, lora)
    except ValueError as error:
        raise bad_spec(f"train.lora: {first_line(error)}") from error


def count_parameters(model: Any) -> tuple[int, int]:
    """Give how many parameters are trained, and how many there are."""
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in model.parameters()]
    return sum(size for size, trained in sizes if trained), sum(size for size, _ in sizes)


def first_line(error: BaseException) -> str:
    """Give the first line of an error's text, or its kind when it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _unusable(name: str, error: BaseException) -> Ended:
    """Tell a model that is not there from a network that is not: the second may pass."""
    cause: BaseException | None = error
    seen: set[str] = set()
    while cause:
        seen |= {kind.__name__ for kind in type(cause).__mro__}
        cause = cause.__cause__ or cause.__context__
    if "GatedRepoError" in seen:
        return bad_spec(f"train.model: {name} is gated: accept its terms on the hub and add HF_TOKEN to secrets")
    if {"TransportError", "ConnectionError", "Timeout"} & seen and "OfflineModeIsEnabled" not in seen:
        return Ended(Reason.CRASHED, f"the model {name} could not be downloaded: {first_line(error)}")
    return bad_spec(f"train.model: {name} cannot be loaded: {first_line(error)}")
