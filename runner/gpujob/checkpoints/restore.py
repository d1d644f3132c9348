"""Getting a checkpoint or a result back: every byte is compared with the manifest, and the manifest with the head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import ValidationError

from gpujob import files
from gpujob.checkpoints import head as heads
from gpujob.core.errors import Damaged, NotFound
from gpujob.core.layout import FILES, MANIFEST, JobKeys
from gpujob.core.records import CheckpointRef, Manifest
from gpujob.store.protocol import Progress, Store


def restore(
    store: Store,
    job_id: str,
    target: Path,
    local: Sequence[Path] = (),
    say: Callable[[str], None] = lambda text: None,
    progress: Progress | None = None,
) -> int | None:
    """Put the newest committed checkpoint that verifies into `target`; give its step, or None when there is none.

    Files below the `local` folders with the right bytes are copied instead of downloaded. A damaged checkpoint is
    passed over for the one before it, out loud. Raises Damaged when there are checkpoints and none is whole: to start
    from zero then would throw paid work away without asking.
    """
    refs = heads.read(store, job_id).checkpoints
    for ref in refs:
        try:
            fetch(store, JobKeys(job_id).checkpoint(ref.step, ref.generation), ref, target, local, progress)
        except (Damaged, NotFound) as error:
            files.remove_tree(target)
            say(f"checkpoint of step {ref.step} is damaged and passed over: {error}")
        else:
            return ref.step
    if refs:
        steps = ", ".join(str(ref.step) for ref in refs)
        raise Damaged(
            "restore", f"job {job_id}", f"all its checkpoints are damaged (steps {steps})", "submit it with --fresh"
        )
    return None


def fetch_result(store: Store, job_id: str, target: Path, progress: Progress | None = None) -> Manifest:
    """Put the job's result into `target`; raises NotFound when there is none yet, Damaged when it is not whole."""
    ref = heads.read(store, job_id).result
    if ref is None:
        raise NotFound("fetch", f"the result of job {job_id}", "there is none yet")
    return fetch(store, JobKeys(job_id).result(ref.generation), ref, target, (), progress)


def fetch(
    store: Store, prefix: str, ref: CheckpointRef, target: Path, local: Sequence[Path], progress: Progress | None
) -> Manifest:
    """Put what `ref` names into `target`, verified; raises Damaged or NotFound when it is not whole."""
    manifest = _manifest(store, f"{prefix}{MANIFEST}", ref)
    target.mkdir(parents=True, exist_ok=True)
    here = _by_size(local)
    for entry in manifest.files:
        path = files.inside(target, entry.path)
        same = next((each for each in here.get(entry.size, ()) if files.matches(each, entry)), None)
        if same:
            # Copied, not linked: a program may write into the folder it resumes from.
            files.copy(same, path)
        else:
            store.get_file(f"{prefix}{FILES}{entry.path}", path, progress)
            if not files.matches(path, entry):
                raise Damaged("use", f"{prefix}{FILES}{entry.path}", "its bytes are not those of the manifest")
    return manifest


def _manifest(store: Store, key: str, ref: CheckpointRef) -> Manifest:
    data = store.get(key)
    if files.digest_bytes(data) != ref.digest:
        raise Damaged("use", key, "it is not the manifest that was committed")
    try:
        return Manifest.decode(data)
    except ValidationError as error:
        raise Damaged("use", key, f"{error.error_count()} fields are wrong") from error


def _by_size(folders: Sequence[Path]) -> dict[int, list[Path]]:
    """Index the files this machine has already; whether the bytes are right is for the digest to say."""
    found: dict[int, list[Path]] = {}
    for folder in folders:
        for path in files.regular_files(folder):
            found.setdefault(path.stat().st_size, []).append(path)
    return found
