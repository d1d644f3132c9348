"""The contents of files in the store, each under its own digest."""

from __future__ import annotations

from collections.abc import Collection

from gpujob.bundle.threads import map_all
from gpujob.core.layout import blob, blobs
from gpujob.store.protocol import Store

IN_MEMORY = 8 << 20
"""Up to this size (bytes) a file is moved in one piece, checked before a byte of it is stored."""


def sizes(store: Store, digests: Collection[str]) -> dict[str, int]:
    """Give the sizes of those blobs the store has; at most 256 listings, however many are asked for."""
    prefixes = sorted({blobs(digest) for digest in digests})
    listings = map_all(lambda prefix: list(store.list(prefix)), prefixes)
    found = {info.key: info.size for listing in listings for info in listing}
    return {digest: found[blob(digest)] for digest in digests if blob(digest) in found}
