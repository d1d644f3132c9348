"""What a rental, a store or a file name says is untrusted: nothing of it may steer the terminal it is printed on.

Whole escape sequences (colours, cursor moves, OSC 8 links, OSC 52 clipboard writes, device strings) are taken out.
What is left of control and bidirectional characters is shown as an escape, so a removal can never build a new
sequence, and text cannot be drawn in another order than it is stored.
"""

from __future__ import annotations

import re
import unicodedata

_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, modes
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC with their terminator
    r"|\x1b[ -/]+[0-~]"  # character sets
)

_STEERING = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Unicode categories shown as escapes: controls, format characters (bidirectional, zero width), lone surrogates,
line and paragraph separators."""

_JOINERS = "\u200c\u200d"
"""Format characters that ordinary text and emoji need."""


def safe(text: str) -> str:
    """Give `text` as one line that any terminal prints as letters and nothing else; a tab becomes four spaces."""
    text = text.expandtabs(4)
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, _SEQUENCE.sub("", text)))


def safe_lines(text: str) -> list[str]:
    r"""Split untrusted text at `\n` and `\r` (progress bars) and make each line safe."""
    return [safe(line) for line in re.split(r"\r\n|\n|\r", text)]


def _shown(char: str) -> str:
    if char in _JOINERS or unicodedata.category(char) not in _STEERING:
        return char
    return char.encode("unicode_escape", "backslashreplace").decode()
