"""File names that break careless code: a shell, a log line, a URL, a path join or a disk trips over each of them."""

from __future__ import annotations

import pytest

TRAVELLING = (
    "with space.txt",
    " leading and trailing ",
    "quote'and\"double.txt",
    "'; echo foo",
    "$(echo foo)`id`.txt",
    "#comment",
    "!negated",
    "-rf",
    "--option=value",
    "~home",
    "star*and?[a-z]",
    "a&b|c;d>e<f",
    "percent%41%2F..%00.txt",
    "query?a=b&c=d#fragment",
    "{brace,list}",
    "trailing.dot.",
    "caf\u00e9.txt",
    "cafe\u0301-decomposed.txt",
    "日本語.txt",
    "😀.bin",
    "\u202eright-to-left",
    "COM1.txt",
    "x" * 200,
    "é" * 100,
)
"""Names a Linux disk can hold and that must come out on the other side as they went in."""

STUCK = ("new\nline.txt", "tab\there", "back\\slash", "bell\x07")
"""Names a Linux disk can hold and that are refused, and said so: files.inside would refuse them over there."""

ESCAPING = ("../outside", "a/../../outside", "/absolute", "..", ".", "", "a//b", "a/./b", "a/", "nul\0", *STUCK)
"""Names that no list of files from elsewhere may hold."""


@pytest.fixture(params=TRAVELLING, ids=range(len(TRAVELLING)))
def hostile_name(request: pytest.FixtureRequest) -> str:
    """One file name after the other that breaks careless code."""
    return str(request.param)
