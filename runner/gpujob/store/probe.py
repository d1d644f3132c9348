"""Find out what a store really does, before anything depends on it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from gpujob.core.errors import AlreadyExists, PreconditionFailed, StoreDenied, StoreError, StoreUnavailable
from gpujob.store.protocol import Store

_FOLDER = "probe"


@dataclass(frozen=True, slots=True)
class Probe:
    """What was seen at a store. `problems` are sentences for a person; none means all is well."""

    url: str
    reads_what_was_written: bool
    creates_once: bool
    """A second create-if-absent was refused."""
    replaces_matching_only: bool
    """A replace with a stale etag was refused, and one with the right etag was done."""

    @property
    def conditional(self) -> bool:
        """Whether writers can trust its conditions: without that there is no lease."""
        return self.creates_once and self.replaces_matching_only

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with it."""
        found = {
            "it does not give back what was written": self.reads_what_was_written,
            "it lets a second create-if-absent through": self.creates_once,
            "it does not honour replace-if-match": self.replaces_matching_only,
        }
        return tuple(text for text, fine in found.items() if not fine)


def probe(store: Store) -> Probe:
    """Write, swap, read and delete one small object; raises StoreDenied or StoreUnavailable when even that fails.

    Conditions are proved by what happens, not by what is promised: some servers take the headers and ignore them.
    """
    key = f"{_FOLDER}/{secrets.token_hex(8)}"
    try:
        creates_once, replaces = try_conditions(store, key) if store.capabilities.conditional else (False, False)
        last = secrets.token_bytes(16)
        store.put(key, last)
        return Probe(store.url, store.get(key) == last, creates_once, replaces)
    finally:
        store.delete(key)


def try_conditions(store: Store, key: str) -> tuple[bool, bool]:
    """Say whether create-if-absent and replace-if-match refuse what they must; one writer, nobody beside it."""
    first, second, third = (secrets.token_bytes(16) for _ in range(3))
    try:
        old = store.put(key, first, if_absent=True)
        creates_once = _refuses(AlreadyExists, lambda: store.put(key, second, if_absent=True))
        store.put(key, third, if_match=store.head(key).etag)
        return creates_once, _refuses(PreconditionFailed, lambda: store.put(key, first, if_match=old))
    except (StoreDenied, StoreUnavailable):
        raise
    except StoreError:
        return False, False  # it says itself that it cannot


def _refuses(refusal: type[StoreError], put: Callable[[], str]) -> bool:
    try:
        put()
    except refusal:
        return True
    return False
