"""Nothing that a rental says may steer the terminal it is printed on."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpujob.cli.escape import safe, safe_lines

ATTACKS = {
    "colour": ("\x1b[31mred\x1b[0m", "red"),
    "clear screen": ("a\x1b[2J\x1b[Hb", "ab"),
    "OSC 8 link": ("\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x07", "click"),
    "OSC 52 clipboard": ("x\x1b]52;c;cm0gLXJmIH4=\x07y", "xy"),
    "unfinished OSC": ("x\x1b]52;c;cm0g", "x\\x1b]52;c;cm0g"),
    "device string": ("a\x1bPq#0;2\x1b\\b", "ab"),
    "reset": ("a\x1bcb", "a\\x1bcb"),
    "built by a removal": ("\x1b\x1b[0m[31mx", "\\x1b[31mx"),
    "8-bit CSI": ("a\x9b31mb", "a\\x9b31mb"),
    "8-bit OSC": ("\x9d52;c;eA==\x9c", "\\x9d52;c;eA==\\x9c"),
    "bidi override": ("user\u202egpj.exe", "user\\u202egpj.exe"),
    "bidi isolate": ("a\u2066b\u2069", "a\\u2066b\\u2069"),
    "zero width": ("pay\u200bpal", "pay\\u200bpal"),
    "line separator": ("a\u2028b", "a\\u2028b"),
    "newline": ("a\nb", "a\\nb"),
    "bell and backspace": ("a\x07\x08b", "a\\x07\\x08b"),
    "lone surrogate": ("a\udcffb", "a\\udcffb"),
    "delete": ("a\x7fb", "a\\x7fb"),
    "tag characters": ("a\U000e0041b", "a\\U000e0041b"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_is_printed_as_letters(name: str) -> None:
    text, shown = ATTACKS[name]
    assert safe(text) == shown


@pytest.mark.parametrize("text", ["plain", "损失 下降", "épée — 1 µs", "👩\u200d💻 ok", "[bold]no markup[/]", "שלום"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert safe(text) == text


@given(st.text(st.characters() | st.sampled_from("\x1b\x9b]P[;m\x07\\")))
def test_no_control_character_survives(text: str) -> None:
    assert not [char for char in safe(text) if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")]


@given(st.text())
def test_what_is_safe_stays_safe(text: str) -> None:
    assert safe(safe(text)) == safe(text)


def test_progress_bars_become_lines() -> None:
    assert safe_lines("10%\r20%\r\ndone\n\tend") == ["10%", "20%", "done", "    end"]
