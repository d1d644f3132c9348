"""Which training a checkpoint belongs to: settings and inputs. Going on with others would be silently wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from blake3 import blake3
from pydantic import BaseModel, Field, ValidationError

from gpujob.core.errors import ResumeRefused
from gpujob.core.layout import step_in_name
from gpujob.core.records import Record, TrainTask

NOTE = "gpujob.json"
LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "tokenizers", "safetensors")
_STATE = "trainer_state.json"


class Leg(BaseModel, frozen=True):
    """One attempt's share of a training: it went on from this step (0 = from the start)."""

    attempt: int
    from_step: int


class Note(Record):
    """What gpujob adds to a checkpoint (gpujob.json).

    `digest` is the identity of the training; `train` and `inputs_digest` are what it is made of, so that a
    difference can be named. `before` are the replies of the untouched model.
    """

    step: int
    digest: str
    train: dict[str, Any]
    inputs_digest: str
    versions: dict[str, str] = Field(default_factory=dict)
    legs: tuple[Leg, ...] = ()
    before: tuple[str, ...] = ()


def new_note(task: TrainTask) -> Note:
    """Give the note of a training that starts."""
    train = task.train.model_dump(mode="json")
    return Note(
        step=0,
        digest=identity(train, task.inputs_digest),
        train=train,
        inputs_digest=task.inputs_digest,
        versions=installed_versions(),
    )


def identity(train: Mapping[str, Any], inputs_digest: str) -> str:
    """Give the digest that two runs share exactly when one may go on from the other's checkpoint."""
    canonical = json.dumps({"train": train, "inputs": inputs_digest}, sort_keys=True, separators=(",", ":"))
    return blake3(canonical.encode()).hexdigest()


def installed_versions() -> dict[str, str]:
    """Give the versions of the libraries that the numbers depend on."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def read_note(folder: Path, task: TrainTask) -> Note:
    """Read a checkpoint's note; raises ResumeRefused when the checkpoint is not of this very training."""

    def refuse(cause: str) -> ResumeRefused:
        return ResumeRefused("resume from", folder.name, cause, "start a new job instead")

    try:
        note = Note.decode((folder / NOTE).read_bytes())
        state = json.loads((folder / _STATE).read_bytes())
    except (OSError, ValidationError, ValueError) as error:
        raise refuse(f"it is no checkpoint of this trainer: {str(error).splitlines()[0]}") from error
    now = new_note(task)
    if note.digest != now.digest:
        raise refuse("; ".join(_differences(note, now)) or "it was made with other settings")
    steps = {note.step, state.get("global_step"), *filter(None, [step_in_name(folder.name)])}
    if len(steps) != 1:
        raise refuse(f"its files are of different steps: {', '.join(map(str, sorted(steps, key=str)))}")
    return note


def changed_versions(note: Note) -> list[str]:
    """List the libraries that are not what the checkpoint was made with, as `torch 2.6.0 -> 2.7.0`."""
    now = installed_versions()
    names = sorted(note.versions.keys() | now.keys())
    pairs = [(name, note.versions.get(name, "none"), now.get(name, "none")) for name in names]
    return [f"{name} {old} -> {new}" for name, old, new in pairs if old != new]


def _differences(old: Note, new: Note) -> Iterator[str]:
    before, after = dict(_flat("train", old.train)), dict(_flat("train", new.train))
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            yield f"{key} was {json.dumps(before.get(key))} and is now {json.dumps(after.get(key))}"
    if old.inputs_digest != new.inputs_digest:
        yield "the rows or the model's files are not those it was made with"


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}", inner)
    else:
        yield prefix, value
