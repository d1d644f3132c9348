"""What a finished training leaves: weights with their tokenizer, the whole log, a picture and a summary."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from gpujob import files
from gpujob.core.records import Record
from gpujob.report.curve import draw_curve
from gpujob.trainer.data import Encoded
from gpujob.trainer.identity import Leg, Note
from gpujob.trainer.loop import save_weights

_FINAL = 10
"""The last loss of a run is noise; the mean over so many of the last steps is what it ended at."""


class Rows(BaseModel, frozen=True):
    """What became of the rows of a file; the rows lost are not among those used."""

    used: int
    cut: int
    lost: int


class Reply(BaseModel, frozen=True):
    """One question, and what the model said before and after the training."""

    prompt: str
    before: str
    after: str


class Summary(Record):
    """result/summary.json. `train_loss` is the mean of the last ten steps, `seconds` the sum of all steps' times."""

    model: str
    steps: int
    epochs: float
    train_loss: float | None
    eval_loss: float | None
    trainable_parameters: int
    total_parameters: int
    rows: Rows
    validation_rows: Rows | None
    tokens: int
    seconds: float
    attempts: tuple[Leg, ...]
    device: str
    precision: str
    versions: dict[str, str]
    replies: tuple[Reply, ...] = ()


def count_rows(encoded: Encoded | None) -> Rows | None:
    """Count what became of some rows."""
    if encoded is None:
        return None
    return Rows(used=len(encoded), cut=len(encoded.cut), lost=len(encoded.lost))


def pair_replies(prompts: Sequence[str], before: Sequence[str], after: Sequence[str]) -> tuple[Reply, ...]:
    """Put questions and replies together."""
    texts = zip(prompts, before, after, strict=True)
    return tuple(Reply(prompt=prompt, before=first, after=second) for prompt, first, second in texts)


def totals(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Give what the summary says of the log."""
    steps = [line for line in lines if "loss" in line]
    evals = [line["eval_loss"] for line in lines if "eval_loss" in line]
    final = [line["loss"] for line in steps[-_FINAL:]]
    return {
        "steps": steps[-1]["step"],
        "epochs": steps[-1]["epoch"],
        "train_loss": sum(final) / len(final),
        "eval_loss": evals[-1] if evals else None,
        "tokens": sum(line["tokens"] for line in steps),
        "seconds": round(sum(line["seconds"] for line in steps), 3),
    }


def write_result(
    folder: Path, model: Any, tokenizer: Any, lines: Sequence[Mapping[str, Any]], summary: Summary, note: Note
) -> None:
    """Write everything into the output folder; an earlier attempt's unfinished result there is written over."""
    weights = folder / ("adapter" if hasattr(model, "peft_config") else "model")
    save_weights(model, str(weights))
    tokenizer.save_pretrained(weights)
    log = "".join(json.dumps(line) + "\n" for line in lines)
    files.write(folder / "metrics.jsonl", log.encode())
    draw_curve(lines, folder / "loss.png", title=summary.model, restarts=[leg.from_step for leg in note.legs[1:]])
    files.write(folder / "summary.json", summary.encode())
