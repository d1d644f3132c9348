"""Reading --env-file: KEY=VALUE lines, as most tools understand them."""

from __future__ import annotations

import re
from pathlib import Path

from gpujob.core.errors import UsageError

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")


def read(path: Path) -> dict[str, str]:
    """Read KEY=VALUE lines: blank lines, `#` comments, `export`, and one pair of quotes around a value are understood.

    Nothing is expanded. Raises UsageError with file and line, and never a value, when a line is something else.
    """
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
        raise UsageError("read", str(path), cause.lower()) from error
    found: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise UsageError("read", f"{path}:{number}", "a line is KEY=VALUE, a # comment or empty")
        found[match[1]] = _value(match[2])
    return found


def _value(text: str) -> str:
    """Take off the quotes; without them a ` #` starts a comment."""
    quote = text[:1]
    if quote in {"'", '"'} and (end := text.find(quote, 1)) > 0 and re.fullmatch(r"\s*(#.*)?", text[end + 1 :]):
        return text[1:end]
    return re.split(r"\s#", text, maxsplit=1)[0].rstrip()
