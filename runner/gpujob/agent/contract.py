"""The contract with the program: environment and files, nothing to import."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import gpujob
from gpujob import bundle as bundles
from gpujob import files, processes
from gpujob.core.layout import DATA, MODEL, VALIDATION, HostPaths
from gpujob.core.plan import Plan
from gpujob.core.records import Bundle, Launch, TrainTask
from gpujob.core.spec import Train
from gpujob.runtime.environ import machine_environ


def command(plan: Plan, python: str) -> list[str]:
    """Give the program's arguments; `python` runs the built-in trainer."""
    return shell(plan.command) if plan.command is not None else [python, "-m", "gpujob.trainer"]


def shell(line: str) -> list[str]:
    """Give the arguments that run a shell command."""
    return ["bash", "-c", line]


def environ(launch: Launch, plan: Plan, machine: Mapping[str, str], resume: Path | None) -> dict[str, str]:
    """Give the program's whole environment: of the machine's only what it needs, and never what opens the store."""
    host = HostPaths(Path(launch.root))
    paths, interval = host.attempt(launch.attempt), plan.spec.checkpoint.interval
    found = {
        **machine_environ(machine),
        "PATH": _path(machine),
        "PYTHONUNBUFFERED": "1",
        **plan.spec.env,
        **launch.secrets,
        processes.ID_COOKIE: launch.job_id,
        processes.ATTEMPT_COOKIE: str(launch.attempt),
        "GPUJOB_CHECKPOINT_DIR": str(paths.checkpoints),
        "GPUJOB_CHECKPOINT_INTERVAL": f"{interval:g}" if isinstance(interval, float) else "",
        "GPUJOB_RESUME_FROM": str(resume or ""),
        "GPUJOB_DATA_DIR": str(host.part(DATA)),
        "GPUJOB_OUTPUT_DIR": str(paths.output),
        "GPUJOB_METRICS": str(paths.metrics),
        "GPUJOB_VERDICT": str(paths.verdict),
    }
    if plan.spec.train is not None:
        # The trainer is our own code; a program of the user's must not find it before its own modules.
        ours = str(Path(gpujob.__file__).parent.parent)
        found["PYTHONPATH"] = os.pathsep.join(filter(None, (ours, found.get("PYTHONPATH"))))
        found["GPUJOB_TRAIN"] = str(paths.train)
        found["GPUJOB_KIT"] = machine.get("PYTHONPATH", "")
    return found


def _path(machine: Mapping[str, str]) -> str:
    """Put the agent's own Python first: the environment that was made for the job, in a venv as well."""
    return os.pathsep.join(filter(None, (str(Path(sys.executable).parent), machine.get("PATH"))))


def write_task(path: Path, plan: Plan, train: Train, bundle: Bundle, host: HostPaths) -> None:
    """Write what the built-in trainer is to do."""
    task = TrainTask(
        train=train,
        data=str(_place(bundle, host, DATA)),
        validation=str(_place(bundle, host, VALIDATION)) if VALIDATION in bundle.parts else None,
        model=str(host.part(MODEL)) if MODEL in bundle.parts else train.model,
        inputs_digest=bundles.inputs_digest(bundle),
        interval=plan.spec.checkpoint.interval,
    )
    files.write(path, task.encode())


def _place(bundle: Bundle, host: HostPaths, part: str) -> Path:
    """Give where a part lies: the file itself when it is one, else its folder."""
    entries = bundle.parts.get(part, ())
    return files.inside(host.part(part), entries[0].path) if len(entries) == 1 else host.part(part)
