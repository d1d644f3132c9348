"""What the trainer is started with: the environment of any child program, read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpujob.core.records import TrainTask


@dataclass(frozen=True, slots=True)
class Contract:
    """One attempt's task and folders. `resume_from` is a checkpoint of an earlier attempt, whole and verified."""

    task: TrainTask
    checkpoints: Path
    output: Path
    metrics: Path
    resume_from: Path | None = None
    verdict: Path | None = None
    attempt: int = 1


def read_contract(environ: Mapping[str, str]) -> Contract:
    """Read the contract; raises KeyError for a variable that is missing, ValidationError for a task that is none."""

    def path(name: str) -> Path | None:
        return Path(environ[name]) if environ.get(name) else None

    return Contract(
        task=TrainTask.decode(Path(environ["GPUJOB_TRAIN"]).read_bytes()),
        checkpoints=Path(environ["GPUJOB_CHECKPOINT_DIR"]),
        output=Path(environ["GPUJOB_OUTPUT_DIR"]),
        metrics=Path(environ["GPUJOB_METRICS"]),
        resume_from=path("GPUJOB_RESUME_FROM"),
        verdict=path("GPUJOB_VERDICT"),
        attempt=int(environ.get("GPUJOB_ATTEMPT") or 1),
    )
