"""Checkpoint folders as the trainer writes them, in small, and a job in a store to publish them to."""

from __future__ import annotations

import random
from pathlib import Path

from gpujob.checkpoints import head, lease
from gpujob.checkpoints.lease import Held
from gpujob.store.protocol import Store

JOB = "small-job-abc234"

TRAINER_FILES = (
    "adapter_config.json",
    "adapter_model.safetensors",
    "optimizer.pt",
    "scheduler.pt",
    "rng_state.pth",
    "trainer_state.json",
    "COMPLETE",
)
"""What a LoRA checkpoint consists of."""


def checkpoint_folder(parent: Path, step: int, size: int = 300) -> Path:
    """Write a folder whose bytes depend on the step alone."""
    folder = parent / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    source = random.Random(step)
    for name in TRAINER_FILES:
        (folder / name).write_bytes(b"" if name == "COMPLETE" else source.randbytes(size))
    return folder


def start(store: Store, attempt: int = 1, job_id: str = JOB, now: float = 0.0) -> Held:
    """Take the lease as an attempt, on a job that is made when it is not there."""
    if attempt == 1:
        head.create(store, job_id)
    return lease.acquire(store, job_id, attempt, f"holder-{attempt}", now)


def tree(folder: Path) -> dict[str, bytes]:
    """Read a folder's files."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
