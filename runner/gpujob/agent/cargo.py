"""Where an attempt takes the bundle from: this machine's cache, when it was sent here, else the store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from gpujob import bundle as bundles
from gpujob.bundle import Packed
from gpujob.checkpoints.lease import Held
from gpujob.core.errors import Damaged, NotFound
from gpujob.core.layout import HostPaths, JobKeys, blob
from gpujob.core.records import Bundle, FileEntry
from gpujob.store.open import open_store
from gpujob.store.protocol import Progress

Say = Callable[[str, str], None]


def mirror(held: Held, host: HostPaths, say: Say, progress: Progress) -> Bundle:
    """Give the list of what travels, once the store has all of it: from then on any machine can go on with the job.

    Raises Damaged when neither the store nor this machine has a list, StoreError.
    """
    try:
        return bundles.read(held.store, held.job_id)
    except NotFound:
        bundle = _sent_here(host, JobKeys(held.job_id).bundle)
    say("mirroring", "the files that came with the job go into the store")
    entries = [entry for part in bundle.parts.values() for entry in part]
    sources = {entry.blake3: host.machine.cache / blob(entry.blake3) for entry in entries}
    shipped = bundles.ship(held.store, held.job_id, Packed(bundle, sources, {}), progress)
    say("mirrored", f"{shipped.sent_files} of {shipped.total_files} files were new to the store")
    return bundle


def fetch(held: Held, host: HostPaths, part: str, entries: tuple[FileEntry, ...], progress: Progress) -> None:
    """Lay out one part on this machine: from its cache where that has all of it, and else from the store."""
    cache = host.machine.cache
    if all(_size(cache / blob(entry.blake3)) == entry.size for entry in entries):
        with suppress(Damaged):  # the cache is a convenience; the store has the real ones
            return bundles.fetch(open_store(str(cache)), entries, host.part(part), progress=progress)
    return bundles.fetch(held.store, entries, host.part(part), progress=progress)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _sent_here(host: HostPaths, key: str) -> Bundle:
    try:
        return Bundle.decode(host.bundle.read_bytes())
    except FileNotFoundError:
        raise Damaged("find", key, "neither the store nor this machine has the job's files") from None
    except ValidationError as error:
        raise Damaged("read", str(host.bundle), f"{error.error_count()} fields are wrong") from error
