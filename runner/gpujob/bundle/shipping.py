"""Sending a bundle: only the contents the store lacks, and the list of them last."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from gpujob import files
from gpujob.bundle import blobs
from gpujob.bundle.digests import bundle_digest
from gpujob.bundle.packing import Packed
from gpujob.bundle.threads import map_all, one_at_a_time
from gpujob.core.errors import AlreadyExists, Damaged, NotFound, StoreUnavailable
from gpujob.core.layout import JobKeys, blob
from gpujob.core.records import Bundle
from gpujob.store.protocol import Progress, Store


@dataclass(frozen=True, slots=True)
class Shipped:
    """What was sent, out of what travels; files of the same content count once."""

    sent_bytes: int
    sent_files: int
    total_bytes: int
    total_files: int


def ship(store: Store, job_id: str, packed: Packed, progress: Progress | None = None) -> Shipped:
    """Upload what the store lacks, then write the job's bundle.json; doing it again is cheap and harmless.

    Raises Damaged naming a file that is no longer what was packed, AlreadyExists when the job has another bundle.
    """
    wanted = {entry.blake3: entry.size for entries in packed.bundle.parts.values() for entry in entries}
    there = blobs.sizes(store, wanted)
    missing = [digest for digest, size in wanted.items() if there.get(digest) != size]
    tell = one_at_a_time(progress)
    map_all(lambda digest: _upload(store, digest, packed.sources[digest], wanted[digest], tell), missing)
    _publish(store, job_id, packed.bundle)
    return Shipped(sum(wanted[digest] for digest in missing), len(missing), sum(wanted.values()), len(wanted))


def read(store: Store, job_id: str) -> Bundle:
    """Read the list of what travels; raises NotFound when nothing was shipped, Damaged when it cannot be read."""
    key = JobKeys(job_id).bundle
    try:
        return Bundle.decode(store.get(key))
    except ValidationError as error:
        raise Damaged("read", key, f"{error.error_count()} fields are wrong") from error


def _upload(store: Store, digest: str, path: Path, size: int, progress: Progress) -> None:
    key = blob(digest)
    try:
        if size <= blobs.IN_MEMORY:
            data = path.read_bytes()
            same = files.digest_bytes(data) == digest
            if same:
                store.put(key, data)
                progress(size)
        else:
            store.put_file(key, path, progress)
            same = files.digest(path) == digest
            if not same:
                # Under this name the bytes would pass for those of every job that has the real file.
                store.delete(key)
    except OSError as error:
        raise Damaged("ship", str(path), (error.strerror or str(error)).lower()) from error
    if not same:
        raise Damaged("ship", str(path), "it changed after it was packed", "submit again once nothing writes to it")


def _publish(store: Store, job_id: str, bundle: Bundle) -> None:
    """Write bundle.json once: the same list there already is success, another one an error."""
    key = JobKeys(job_id).bundle
    try:
        if store.capabilities.conditional:
            store.put(key, bundle.encode(), if_absent=True)
        elif not _has(store, job_id, bundle):
            store.put(key, bundle.encode())
    except (AlreadyExists, StoreUnavailable):
        # An answer may have been lost after the put won.
        if not _has(store, job_id, bundle):
            raise


def _has(store: Store, job_id: str, bundle: Bundle) -> bool:
    """Say whether the job has this very bundle; raises AlreadyExists when it has another."""
    try:
        there = read(store, job_id)
    except NotFound:
        return False
    if bundle_digest(there) != bundle_digest(bundle):
        raise AlreadyExists("ship", f"the bundle of job {job_id}", "the job has another one", "submit it as a new job")
    return True
