"""Everything before the program starts: what it needs from the bundle, and the checkpoint it goes on from."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from gpujob import files
from gpujob.agent import cargo, contract
from gpujob.agent.cargo import Say
from gpujob.checkpoints import prune, restore
from gpujob.checkpoints.lease import Held
from gpujob.core.errors import StoreError
from gpujob.core.layout import APP, CODE, DATA, IMAGE, AttemptPaths, HostPaths
from gpujob.core.plan import Plan
from gpujob.store.protocol import Progress


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the program goes on from: a folder and its step, or nothing and 0."""

    resume: Path | None = None
    step: int = 0


def prepare(held: Held, plan: Plan, host: HostPaths, say: Say, progress: Progress) -> Prepared:
    """Unpack the bundle, restore the newest whole checkpoint, lay out the program's folders; may be done again.

    Raises Damaged, StoreError or HostError.
    """
    paths = host.attempt(held.attempt)
    bundle = cargo.mirror(held, host, say, progress)
    for part, entries in bundle.parts.items():
        if part not in (APP, IMAGE):  # those run already
            cargo.fetch(held, host, part, entries, progress)
    prepared = _restore(held, host, paths, say, progress)
    _tidy(held, host, say)
    host.part(DATA).mkdir(parents=True, exist_ok=True)
    _fresh_copy(host.part(CODE), paths.work)
    for folder in (paths.checkpoints, paths.output):
        folder.mkdir(parents=True, exist_ok=True)
    if plan.spec.train is not None:
        contract.write_task(paths.train, plan, plan.spec.train, bundle, host)
    return prepared


def _restore(held: Held, host: HostPaths, paths: AttemptPaths, say: Say, progress: Progress) -> Prepared:
    files.remove_tree(paths.resume)
    # The step is in the folder's name, and known only when it has been restored.
    target = paths.resume / "restoring"
    local = [folder for earlier in _earlier(host, held.attempt) for folder in _checkpoints(earlier)]
    step = restore.restore(held.store, held.job_id, target, local, lambda text: say("damaged", text), progress)
    if step is None:
        return Prepared()
    resume = target.rename(paths.resume / f"checkpoint-{step}")
    say("restored", f"going on from step {step}")
    return Prepared(resume, step)


def _tidy(held: Held, host: HostPaths, say: Say) -> None:
    """Clear away what earlier attempts left; whatever was worth keeping is in the store and restored by now."""
    for earlier in _earlier(host, held.attempt):
        for folder in (*_checkpoints(earlier), earlier.work, earlier.output):
            files.remove_tree(folder)
    try:
        prune.sweep(held, lambda text: say("prune", text))
    except StoreError as error:
        say("prune", f"left-overs in the store stay for now: {error}")


def _earlier(host: HostPaths, attempt: int) -> list[AttemptPaths]:
    return [paths for number in range(1, attempt) if (paths := host.attempt(number)).root.is_dir()]


def _checkpoints(paths: AttemptPaths) -> tuple[Path, ...]:
    return paths.checkpoints, paths.staging, paths.resume


def _fresh_copy(code: Path, work: Path) -> None:
    files.remove_tree(work)
    if code.is_dir():
        shutil.copytree(code, work)
    else:
        work.mkdir(parents=True)
