"""gpujob pull: a job's result, or its newest checkpoint, onto this computer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpujob.cli.call import Call
from gpujob.cli.options import job_argument, verb
from gpujob.cli.progress import Moved, bar
from gpujob.core.errors import NotFound, UsageError

if TYPE_CHECKING:
    from gpujob.core.records import Head
    from gpujob.store.protocol import Store


@verb("pull", "pull support-bot", "pull support-bot result", "pull support-bot newest --checkpoint")
@job_argument
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), required=False)
@click.option("--checkpoint", is_flag=True, help="The newest durable checkpoint instead of the result.")
@click.option("--force", is_flag=True, help="Into a DIR that is not empty; files of the same name are replaced.")
def command(call: Call, job: str, folder: Path | None, checkpoint: bool, force: bool) -> None:
    """Download a job's result, or its newest checkpoint, verified byte by byte.

    DIR is a folder named by the job's id when left out. It is filled once every byte is verified, not before; a
    damaged checkpoint is passed over for the one before it, out loud.
    """
    from gpujob import files
    from gpujob.checkpoints import head as heads

    entry = call.journal.find(job)
    job_id, target = entry.job.id, Path(folder or entry.job.id)
    _refuse(target, force)
    store = call.store(entry)
    head = heads.read(store, job_id)
    ref = head.newest if checkpoint else head.result
    if ref is None:
        raise _nothing(head, checkpoint)
    arriving = target.absolute().with_name(f".{target.absolute().name}.gpujob-pull")
    files.remove_tree(arriving)
    try:
        with bar(call.output, "fetching", ref.bytes) as moved:
            step = _fetch(call, store, job_id, arriving, checkpoint, moved)
        count = _settle(arriving, target)
    finally:
        files.remove_tree(arriving)
    what = "checkpoint" if checkpoint else "result"
    call.output.result(
        {"id": job_id, "kind": what, "step": step, "path": str(target), "files": count},
        f"{what} of step {step:,}: {count} file{'' if count == 1 else 's'} in {target}, every byte verified",
    )


def _refuse(target: Path, force: bool) -> None:
    if target.exists() and not target.is_dir():
        raise UsageError("pull into", str(target), "it is not a folder")
    if target.is_dir() and any(target.iterdir()) and not force:
        hint = "name another DIR, or replace files of the same name with --force"
        raise UsageError("pull into", str(target), "it is not empty", hint)


def _nothing(head: Head, checkpoint: bool) -> NotFound:
    if checkpoint:
        return NotFound("pull", f"a checkpoint of {head.job_id}", "none is durable yet", f"gpujob status {head.job_id}")
    newest = f"step {head.newest.step} is durable: gpujob pull {head.job_id} --checkpoint" if head.newest else ""
    return NotFound("pull", f"the result of {head.job_id}", "there is none yet", newest)


def _fetch(call: Call, store: Store, job_id: str, folder: Path, checkpoint: bool, moved: Moved | None) -> int:
    from gpujob.checkpoints.restore import fetch_result, restore

    if not checkpoint:
        return fetch_result(store, job_id, folder, moved).step
    step = restore(store, job_id, folder, say=lambda text: call.output.note(f"warning: {text}"), progress=moved)
    assert step is not None
    return step


def _settle(arrived: Path, target: Path) -> int:
    """Move verified files to where they were asked for; give their number."""
    from gpujob import files

    found = files.regular_files(arrived)
    if not target.exists():
        arrived.rename(target)
        return len(found)
    for path in found:
        place = files.inside(target, path.relative_to(arrived).as_posix())
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(path, place)
    return len(found)
