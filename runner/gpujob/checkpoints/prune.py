"""Deleting, in the reverse order of making: out of the head first, then the manifest, then the files."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpujob.checkpoints import lease
from gpujob.checkpoints.lease import Held
from gpujob.core.errors import StoreError
from gpujob.core.layout import MANIFEST, JobKeys
from gpujob.store.protocol import Store

_FOLDER = re.compile(r"(\d+)-(\d+)/")


def delete_checkpoint(store: Store, job_id: str, step: int, generation: int, say: Callable[[str], None]) -> None:
    """Delete a checkpoint the head no longer names. A failure is said and left for the next sweep."""
    prefix = JobKeys(job_id).checkpoint(step, generation)
    try:
        store.delete(f"{prefix}{MANIFEST}")
        for info in list(store.list(prefix)):
            store.delete(info.key)
    except StoreError as error:
        say(f"checkpoint {step} could not be deleted and will be tried again: {error}")


def sweep(held: Held, say: Callable[[str], None] = lambda text: None) -> int:
    """Delete what killed uploads and deletions of earlier generations left; give the count of checkpoints.

    Called when an attempt starts, after it has the lease: an earlier generation can commit nothing any more, so what
    the head does not name can never be named.
    """
    head = lease.check(held)
    known = {(ref.step, ref.generation) for ref in head.checkpoints}
    prefix = JobKeys(held.job_id).checkpoints
    found = {
        (int(match[1]), int(match[2]))
        for info in held.store.list(prefix)
        if (match := _FOLDER.match(info.key[len(prefix) :]))
    }
    stale = sorted((step, generation) for step, generation in found - known if generation < held.generation)
    for step, generation in stale:
        delete_checkpoint(held.store, held.job_id, step, generation, say)
    return len(stale)
