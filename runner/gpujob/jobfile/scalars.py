"""What an unquoted word of YAML means here: YAML 1.2's rules, and a plain sentence where YAML 1.1 says otherwise."""

from __future__ import annotations

import re

_NULL = {"", "~", "null", "Null", "NULL"}
_TRUE = {word for base in ("true", "yes", "on") for word in (base, base.capitalize(), base.upper())}
_FALSE = {word for base in ("false", "no", "off") for word in (base, base.capitalize(), base.upper())}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*(?:_[0-9]+)*)")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"([-+]?)\.(inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
_OTHER_BASE = re.compile(r"[-+]?0(?:x[0-9a-fA-F]+|o[0-7]+|b[01]+)")
_BASE_60 = re.compile(r"[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?")
_LONGEST_NUMBER = 400


def meaning(text: str) -> str | int | float | bool | None:
    """Give the value of an unquoted word; one that `oddity` objects to stays a text."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if len(text) > _LONGEST_NUMBER or oddity(text):
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if special := _SPECIAL.fullmatch(text):
        return float(f"{special[1] or ''}{'inf' if special[2] else 'nan'}")
    return text


def oddity(text: str) -> str:
    """Say why an unquoted word means different things to different readers of YAML; empty when it does not."""
    quoted = f'write "{text}" in quotes for the text'
    if _LEADING_ZERO.fullmatch(text):
        plain = text.lstrip("+-0") or "0"
        return f"`{text}` without quotes is an octal number to one YAML and not to the next: write {plain}, or {quoted}"
    if _OTHER_BASE.fullmatch(text):
        return f"`{text}` without quotes is the number {int(text, 0)} to YAML: write that, or {quoted}"
    if _BASE_60.fullmatch(text):
        return f"`{text}` without quotes is a number in base 60 to YAML: write 1h30m for a duration, or {quoted}"
    if _DATE.fullmatch(text):
        return f"`{text}` without quotes is a date to YAML: {quoted}"
    return ""


def is_plain_number(text: str) -> bool:
    """Say whether an unquoted word is a number that may stand for its own characters, as in `name: 123`."""
    return bool(_INT.fullmatch(text) or _FLOAT.fullmatch(text)) and not oddity(text)
