"""Making a checkpoint durable: files, then the manifest, then the head. Before the last step it does not exist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpujob import files
from gpujob.checkpoints import head as heads
from gpujob.checkpoints import lease
from gpujob.checkpoints.lease import Held
from gpujob.checkpoints.prune import delete_checkpoint
from gpujob.core.errors import AlreadyExists, Damaged
from gpujob.core.layout import FILES, MANIFEST, JobKeys
from gpujob.core.records import CheckpointRef, Head, Manifest
from gpujob.core.retention import to_drop
from gpujob.store.protocol import Progress


def publish(
    held: Held,
    folder: Path,
    step: int,
    made_at: float,
    keep: int,
    *,
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> CheckpointRef:
    """Commit `folder` as the checkpoint of `step` and drop the ones no longer kept.

    Raises Fenced when another attempt took the job over (nothing is committed), Damaged when a file changed while it
    was read, StoreError when the store failed (safe to call again). A failed deletion is only said.
    """
    lease.check(held)
    ref = _upload(held, JobKeys(held.job_id).checkpoint(step, held.generation), folder, step, made_at, progress)
    dropped: list[CheckpointRef] = []

    def commit(head: Head) -> Head:
        held.require(head)
        if any(known.step == step and known.generation == held.generation for known in head.checkpoints):
            return head
        # A later generation went on from the newest checkpoint that was whole, whatever higher step a damaged one has.
        everything = sorted((ref, *head.checkpoints), key=lambda each: (each.generation, each.step), reverse=True)
        dropped[:] = to_drop(everything, keep)
        return head.model_copy(update={"checkpoints": tuple(each for each in everything if each not in dropped)})

    heads.update(held.store, held.job_id, commit)
    for old in dropped:
        delete_checkpoint(held.store, held.job_id, old.step, old.generation, say)
    return ref


def publish_result(
    held: Held, folder: Path, step: int, now: float, *, progress: Progress | None = None
) -> CheckpointRef:
    """Commit `folder` as the job's result; the same order and errors as `publish`."""
    lease.check(held)
    ref = _upload(held, JobKeys(held.job_id).result(held.generation), folder, step, now, progress)

    def commit(head: Head) -> Head:
        held.require(head)
        return head if head.result == ref else head.model_copy(update={"result": ref})

    heads.update(held.store, held.job_id, commit)
    return ref


def _upload(
    held: Held, prefix: str, folder: Path, step: int, made_at: float, progress: Progress | None
) -> CheckpointRef:
    before = {path: _state(path) for path in files.regular_files(folder)}
    entries = files.describe_tree(folder)
    for entry in entries:
        held.store.put_file(f"{prefix}{FILES}{entry.path}", files.inside(folder, entry.path), progress)
    # Hashed first and sent later: a writer in between would leave digests that nobody can meet.
    changed = [
        path for path in {folder / entry.path for entry in entries} | set(before) if _state(path) != before.get(path)
    ]
    if changed:
        raise Damaged("publish", str(folder), f"{min(changed).name} changed while it was read")
    manifest = Manifest(
        job_id=held.job_id,
        step=step,
        generation=held.generation,
        attempt=held.attempt,
        created_at=made_at,
        files=entries,
    )
    data = _put_manifest(held, f"{prefix}{MANIFEST}", manifest)
    return CheckpointRef(
        step=step,
        generation=held.generation,
        digest=files.digest_bytes(data),
        bytes=manifest.bytes,
        committed_at=made_at,
    )


def _state(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_size, stat.st_mtime_ns


def _put_manifest(held: Held, key: str, manifest: Manifest) -> bytes:
    data = manifest.encode()
    try:
        held.store.put(key, data, if_absent=True)
    except AlreadyExists:
        # Our own earlier try, whose answer or whose swap was lost: its bytes stand, if they list the same files.
        data = held.store.get(key)
        if Manifest.decode(data).files != manifest.files:
            raise Damaged("publish", key, "another checkpoint of the same step and generation is there") from None
    return data
