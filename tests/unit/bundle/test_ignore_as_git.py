"""Ignore files mean what they mean to git: generated trees, compared with `git check-ignore` itself."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpujob.bundle import select

_NAMES = ["a", "b", "foo", "build", "x.py", "y.txt", "#h", "!n", " s", "z[1]", "foo.py", "aXb"]
_PIECES = [
    "*",
    "**",
    "?",
    "a",
    "b",
    "foo",
    "build",
    "*.py",
    "x.*",
    "y.txt",
    "[ab]",
    "[!a]",
    "f*o",
    "a[A-Z]b",
    "z\\[1\\]",
]

paths = st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4).map("/".join)
bodies = st.lists(st.sampled_from(_PIECES), min_size=1, max_size=3).map("/".join)
lines = st.one_of(
    st.tuples(st.sampled_from(["", "!", "/", "!/"]), bodies, st.sampled_from(["", "/", " ", "\r", "/\r"])).map("".join),
    st.sampled_from(
        ["", "# comment", "#h", "\\#h", "\\!n", "!n", "/", "!", "*", "!*/", "!*.py", "**/", "[", "a\\", "\\ s", " s"]
    ),
)
ignore_files = st.dictionaries(
    st.one_of(st.just(""), st.just("a"), st.just("a/b"), st.just("foo")), st.lists(lines, max_size=5), max_size=3
)


def _plant(root: Path, names: set[str], ignores: dict[str, list[str]]) -> None:
    for name in sorted(names, key=lambda each: -each.count("/")):
        path = root / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
    for folder, rules in ignores.items():
        if not (root / folder).is_file():
            (root / folder).mkdir(parents=True, exist_ok=True)
            (root / folder / ".gitignore").write_text("\n".join(rules), newline="")


def _git(root: Path, *argv: str, stdin: bytes = b"") -> bytes:
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(root)}
    done = subprocess.run(["git", *argv], cwd=root, env=env, input=stdin, capture_output=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def _kept_by_git(root: Path) -> set[str]:
    everything = {
        path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file() and ".git" not in path.parts
    }
    asked = "\0".join(sorted(everything)).encode()
    said = _git(root, "check-ignore", "--no-index", "--stdin", "-z", stdin=asked).decode()
    return everything - set(said.split("\0"))


@settings(max_examples=120, deadline=None)
@example(names={"a/b"}, ignores={"": ["a", "!a/"]})
@example(names={"build/a"}, ignores={"": ["build/\r"]})
@example(names={"foo/a", "foo/y.txt"}, ignores={"": ["foo/**", "!foo/y.txt"]})
@example(names={"a/b/x.py", "a/y.txt"}, ignores={"": ["*", "!*/", "!*.py"]})
@example(names={"a/b/x.py", "a/x.py"}, ignores={"": ["*.py"], "a": ["!x.py"], "a/b": ["/x.py"]})
@given(names=st.sets(paths, min_size=1, max_size=12), ignores=ignore_files)
def test_the_same_files_as_git(names: set[str], ignores: dict[str, list[str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _git(root, "init", "--quiet")
        try:
            _plant(root, names, ignores)
        except (NotADirectoryError, FileExistsError):
            return
        assert {file.path for file in select(root).files} == _kept_by_git(root)
