"""Recognising what must not be shown, and must not be in job.yaml at all."""

from __future__ import annotations

import re

_KEYS = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:AKIA|ASIA)[A-Z0-9]{16}"  # AWS
    r"|hf_[A-Za-z0-9]{16,}"  # Hugging Face
    r"|sk-(?=[A-Za-z0-9_-]*[0-9])[A-Za-z0-9_-]{20,}"  # OpenAI, Anthropic, OpenRouter
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{20,}"
    r"|xox[abprs]-[A-Za-z0-9-]{10,}|AIza[A-Za-z0-9_-]{30,}|rpa_[A-Z0-9]{30,}"
    r")|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
_CREDENTIALS = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s@:]*:[^/\s@]+@")
_NAME = re.compile(r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|PRIVATE_KEY)$", re.IGNORECASE)
_OPAQUE = re.compile(r"[A-Za-z0-9_+/=.-]{12,}")


def looks_secret(text: str, name: str = "") -> bool:
    """Say whether a value looks like a key, token or password; `name` is what it is called."""
    return bool(_KEYS.search(text) or has_credentials(text) or (_NAME.search(name) and _OPAQUE.fullmatch(text)))


def has_credentials(text: str) -> bool:
    """Say whether a URL carries a password (`scheme://user:password@host`)."""
    return bool(_CREDENTIALS.search(text))
