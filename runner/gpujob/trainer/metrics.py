"""One JSON line per step and per evaluation; a step that is no number ends the training."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from blake3 import blake3
from transformers import TrainerCallback

from gpujob.core.reasons import Reason
from gpujob.trainer.endings import Ended

_STEP_KEYS = ("step", "total_steps", "epoch", "loss", "grad_norm", "learning_rate", "tokens", "seconds", "at", "batch")
_EVAL_KEYS = ("step", "total_steps", "epoch", "eval_loss", "at")
_SAY_EVERY = 5.0
_HASH_CHARACTERS = 16


class Meter:
    """Measure one optimizer step: its time, its tokens, and a hash of the very rows it saw, in order."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._batches: list[Mapping[str, Any]] = []

    def begin(self) -> None:
        """Start the clock, before the rows are fetched."""
        self._began = time.monotonic()

    def see(self, batches: list[Mapping[str, Any]]) -> None:
        """Take the step's micro-batches."""
        self._batches = batches

    def read(self) -> dict[str, Any]:
        """Give what is to be logged of the step."""
        return {
            "tokens": sum(_count_tokens(batch) for batch in self._batches),
            "batch": batch_hash(batch["input_ids"] for batch in self._batches),
            "seconds": round(time.monotonic() - self._began, 4),
        }


def batch_hash(batches: Iterable[Any]) -> str:
    """Give a short hash of the token ids of micro-batches, shapes included."""
    hasher = blake3()
    for ids in batches:
        hasher.update(repr(tuple(ids.shape)).encode())
        hasher.update(ids.cpu().numpy().tobytes())
    return hasher.hexdigest()[:_HASH_CHARACTERS]


def _count_tokens(batch: Mapping[str, Any]) -> int:
    mask = batch.get("attention_mask")
    return int(batch["input_ids"].numel() if mask is None else mask.sum())


def step_lines(history: Iterable[Mapping[str, Any]], total_steps: int) -> list[dict[str, Any]]:
    """Pick the steps and evaluations out of a trainer's log history, as lines of a metrics file."""
    return [line for entry in history if (line := to_line(entry, total_steps))]


def to_line(entry: Mapping[str, Any], total_steps: int) -> dict[str, Any] | None:
    """Give an entry of the log history as a line, or None when it is neither a step nor an evaluation."""
    keys = _STEP_KEYS if "loss" in entry else _EVAL_KEYS if "eval_loss" in entry else ()
    whole = {**entry, "total_steps": total_steps}
    return {key: _strict(whole[key]) for key in keys if key in whole} or None


def evaluated(history: Iterable[Mapping[str, Any]], step: int) -> bool:
    """Say whether a log history has the validation loss of a step."""
    return any(entry.get("step") == step and "eval_loss" in entry for entry in history)


def _strict(value: Any) -> Any:
    """Strict JSON has no NaN and no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


class MetricsLog(TrainerCallback):  # type: ignore[misc]
    """Append to $GPUJOB_METRICS, tell a person now and then, and stop at the first step that is no number."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self._path, self._say = path, say
        self._said_at = -math.inf

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Write the first line."""
        self.header(state)

    def header(self, state: Any) -> None:
        """Say how many steps there will be and how many there are already."""
        self._append({"total_steps": state.max_steps, "resumed_step": state.global_step})

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any], **_: Any) -> None:
        """Write a line; raises Ended (DIVERGED)."""
        entry = {**logs, "step": state.global_step}
        line = to_line(entry, state.max_steps)
        if line is None:
            return
        self._append(line)
        self._tell(line)
        for name in ("loss", "grad_norm"):
            if not math.isfinite(entry.get(name, 0.0)):
                raise Ended(Reason.DIVERGED, _diverged(name, entry))

    def _append(self, line: Mapping[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")

    def _tell(self, line: Mapping[str, Any]) -> None:
        step, total = line["step"], line["total_steps"]
        if "eval_loss" in line:
            self._say(f"step {step}/{total}  loss on the validation rows {_number(line['eval_loss'])}")
        elif time.monotonic() - self._said_at >= _SAY_EVERY or step == total or line["loss"] is None:
            self._said_at = time.monotonic()
            rest = f"learning rate {line['learning_rate']:.3g}  {line['seconds']:.2f} s"
            self._say(f"step {step}/{total}  loss {_number(line['loss'])}  {rest}")


def _diverged(name: str, entry: Mapping[str, Any]) -> str:
    what = "the loss" if name == "loss" else "the gradient"
    return (
        f"{what} became {entry[name]} at step {entry['step']}, at a learning rate of {entry['learning_rate']:.3g}; "
        "nothing was saved after that: a lower learning_rate or a longer warmup_steps is the usual way out"
    )


def _number(value: float | None) -> str:
    return "is no number" if value is None else f"{value:.4f}"
