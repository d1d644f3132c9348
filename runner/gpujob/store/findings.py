"""What was found about a store, in words a person can act on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(str, Enum):
    """How bad it is: fine, worth doing something about, or a job would fail."""

    OK = "ok"
    WARN = "warn"
    ERROR = "error"


POLICY = "docs/storage.md has a policy to copy"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what was seen, and where it is not fine, what to do."""

    check: str
    level: Level
    text: str
    hint: str = ""


def ok(check: str, text: str) -> Finding:
    """Say that all is well."""
    return Finding(check, Level.OK, text)


def warn(check: str, text: str, hint: str) -> Finding:
    """Say what works, and yet should be changed."""
    return Finding(check, Level.WARN, text, hint)


def error(check: str, text: str, hint: str) -> Finding:
    """Say what a job would fail by."""
    return Finding(check, Level.ERROR, text, hint)
