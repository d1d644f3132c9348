"""A place of its own in a store, where things can be tried; what was written there is deleted in the end."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from gpujob.core.errors import StoreError
from gpujob.store.bucket import Bucket
from gpujob.store.protocol import Store

Say = Callable[[str], None]
"""Told what is being tried now."""


class Trial:
    """Keys below one fresh `probe-…/` prefix. It knows them all, so that nothing stays where lists are not allowed."""

    def __init__(self, store: Store, say: Say) -> None:
        self.store, self.say = store, say
        self.prefix = f"probe-{secrets.token_hex(6)}/"
        self.left: StoreError | None = None
        """Why something could not be deleted."""
        self._used: list[str] = []

    def key(self, name: str) -> str:
        """Give the key of `name`; whatever will lie there is deleted in the end."""
        key = f"{self.prefix}{name}"
        if key not in self._used:
            self._used.append(key)
        return key

    def forget(self, key: str) -> None:
        """Know that nothing lies at `key`."""
        self._used.remove(key)

    @contextmanager
    def cleaning_up(self, bucket: Bucket | None) -> Iterator[None]:
        """Delete everything when the block ends, however it ends."""
        try:
            yield
        finally:
            self.say("cleaning up")
            for key in self._used:
                try:
                    self.store.delete(key)
                except StoreError as error:
                    self.left = error
                    break  # the others would fail alike, each after all its retries
            if bucket:
                with suppress(StoreError):
                    bucket.sweep(self.prefix)
