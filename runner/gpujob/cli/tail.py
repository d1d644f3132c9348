"""Reading a growing stream of a job (metrics, events) as it grows: every segment once, over all attempts."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from gpujob.core.errors import NotFound
from gpujob.core.layout import JobKeys
from gpujob.store.protocol import Store


@dataclass(slots=True)
class Tail:
    """The new lines of one stream. Segments are asked for by number, so that a long job needs no long listing."""

    store: Store
    job_id: str
    stream: str
    _attempt: int = field(default=1, init=False)
    _next: int = field(default=1, init=False)

    def read(self, newest_attempt: int) -> list[dict[str, Any]]:
        """Give the JSON objects that came since the last call; raises StoreError. A torn line is passed over."""
        found = self._segments()
        while self._attempt < newest_attempt:
            self._attempt, self._next = self._attempt + 1, 1
            found += self._segments()
        return [value for data in found for line in data.splitlines() if (value := _object(line))]

    def _segments(self) -> list[bytes]:
        keys, found = JobKeys(self.job_id).attempt(self._attempt), list[bytes]()
        try:
            while True:
                found.append(self.store.get(keys.segment(self.stream, self._next)))
                self._next += 1
        except NotFound:
            return found


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
