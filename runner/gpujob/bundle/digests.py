"""One number for many files: blake3 over canonical JSON, the same on every machine and Python."""

from __future__ import annotations

import json

from gpujob import files
from gpujob.core.layout import DATA, MODEL, VALIDATION
from gpujob.core.records import Bundle

_INPUTS = (DATA, VALIDATION, MODEL)


def bundle_digest(bundle: Bundle) -> str:
    """Give the blake3 of everything in a bundle."""
    return _digest(
        {
            part: sorted([entry.path, entry.size, entry.blake3, entry.executable] for entry in entries)
            for part, entries in bundle.parts.items()
        }
    )


def inputs_digest(bundle: Bundle) -> str:
    """Give the blake3 of what a training reads: names and contents of data, validation and model.

    The executable bit is not in it: it changes no weight, and a checkpoint must not be refused for it.
    """
    return _digest(
        {
            part: sorted([entry.path, entry.size, entry.blake3] for entry in entries)
            for part, entries in bundle.parts.items()
            if part in _INPUTS
        }
    )


def _digest(parts: dict[str, list[list[object]]]) -> str:
    return files.digest_bytes(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode())
