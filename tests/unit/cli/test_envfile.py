"""Reading --env-file."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpujob.cli.envfile import read
from gpujob.core.errors import UsageError


def write(folder: Path, text: str) -> Path:
    path = folder / ".env"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b", "b"),
        ("export A=b", "b"),
        ("  A = b  ", "b"),
        ("A='b # c'", "b # c"),
        ('A="b" # why', "b"),
        ("A=b#c # why", "b#c"),
        ("A=", ""),
        ("A=b=c==", "b=c=="),
        ("A=$HOME", "$HOME"),
        ("A='it''s", "'it''s"),
        ("A=\"'x'\"", "'x'"),
    ],
)
def test_one_line(tmp_path: Path, line: str, value: str) -> None:
    assert read(write(tmp_path, f"# a comment\n\n{line}\n")) == {"A": value}


def test_a_wrong_line_is_named_without_its_content(tmp_path: Path) -> None:
    path = write(tmp_path, "A=1\nhunter2\n")
    with pytest.raises(UsageError, match=r"\.env:2") as error:
        read(path)
    assert "hunter2" not in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read(tmp_path / "missing")
