"""Taking secret values out of everything that leaves the machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from gpujob.core.records import Launch

STARS = "***"

_CREDENTIAL = re.compile(r"KEY|SECRET|TOKEN|PASS|CREDENTIAL|CONNECTION|SAS|SIGNATURE", re.IGNORECASE)
_SHORTEST_PIECE = 6
"""A line of a multi-line secret that is shorter (a brace, say) tells nothing and would star out half a log."""


class Redactor:
    """Replaces secret values by ***: as they are, as JSON strings, as parts of a URL, and line by line."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        # The longest first: where one secret begins with another, the whole of it must go.
        forms = sorted({form.encode() for value in values for form in _forms(value)}, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, forms))) if forms else None
        self.longest = len(forms[0]) if forms else 0

    @classmethod
    def of(cls, launch: Launch) -> Redactor:
        """Know every secret of a launch: the job's, and what opens the store."""
        return cls((*launch.secrets.values(), *_credentials(launch.store_env)))

    def data(self, data: bytes) -> bytes:
        """Redact bytes that end where a line ends."""
        return self._pattern.sub(STARS.encode(), data) if self._pattern else data

    def text(self, text: str) -> str:
        """Redact a text."""
        return self.data(text.encode(errors="surrogateescape")).decode(errors="replace")

    def head(self, data: bytes, length: int) -> bytes:
        """Redact the first `length` bytes, and the rest of a secret that reaches beyond them.

        `data` must go on for `longest` bytes after `length`, or end where the line ends.
        """
        for found in self._pattern.finditer(data) if self._pattern else ():
            if found.start() < length < found.end():
                length = found.end()
        return self.data(data[:length])


def _forms(value: str) -> set[str]:
    lines = {each for line in value.splitlines() if len(each := line.strip()) >= _SHORTEST_PIECE}
    pieces = {value.strip(), *lines}
    return {form for piece in pieces for form in (piece, json.dumps(piece)[1:-1], quote(piece, safe=""))} - {""}


def _credentials(environ: Mapping[str, str]) -> list[str]:
    return [value for name, value in environ.items() if _CREDENTIAL.search(name)]
