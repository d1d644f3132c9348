"""Ignore files, read as git reads them.

Names are matched while walking down from the root, so a pattern is asked about the entry itself only: whether a
folder above it is ignored has been decided before, and what is below an ignored folder is never reached (git cannot
re-include it either). The syntax of a line is pathspec's business, the rest is here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec
from pathspec.pattern import RegexPattern

OWN_NAME = ".gpujobignore"
"""Where the root has one, this name is read in every folder instead of git's."""

GIT_NAME = ".gitignore"

_BELOW = "ps_d"
"""pathspec's group for the slash after a match: it is set where only a folder above the name matched."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: RegexPattern
    folders_only: bool

    def applies(self, name: str, is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        found = self.pattern.match_file(name)
        return found is not None and found.match.groupdict().get(_BELOW) is None


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """One ignore file. Names reach it relative to the root: `base` is its folder there, `above` the root's in it."""

    rules: tuple[_Rule, ...]
    base: str = ""
    above: str = ""

    def verdict(self, name: str, is_folder: bool) -> bool | None:
        """Say whether `name` is ignored (True), kept on purpose (False) or not mentioned (None)."""
        relative = self.above + name[len(self.base) :]
        last = next((rule for rule in reversed(self.rules) if rule.applies(relative, is_folder)), None)
        return last.pattern.include if last else None


def ignored(ignores: Sequence[IgnoreFile], name: str, is_folder: bool) -> bool:
    """Say whether `name` (relative to the root) is left out; the last of `ignores` that mentions it decides."""
    verdicts = (ignore.verdict(name, is_folder) for ignore in reversed(ignores))
    return next((verdict for verdict in verdicts if verdict is not None), False)


def name_for(root: Path) -> str:
    """Give the name of the ignore files that count below `root`."""
    return OWN_NAME if (root / OWN_NAME).is_file() else GIT_NAME


def above(root: Path) -> list[IgnoreFile]:
    """Read the .gitignore files of the folders above `root`, outermost first, as far up as its repository goes."""
    parents = [root, *root.parents]
    top = next((index for index, folder in enumerate(parents) if (folder / ".git").exists()), 0)
    return [
        IgnoreFile(found.rules, above=f"{root.relative_to(folder).as_posix()}/")
        for folder in reversed(parents[1 : top + 1])
        if (found := read(folder / GIT_NAME, ""))
    ]


def read(path: Path, base: str) -> IgnoreFile | None:
    """Read one ignore file of the folder `base` ("" or "a/b/"); None where there is none. A link is not followed."""
    if path.is_symlink() or not path.is_file():
        return None
    text = path.read_bytes().decode("utf-8-sig", "surrogateescape")
    rules = (_rule(line.removesuffix("\r")) for line in text.split("\n"))
    return IgnoreFile(tuple(rule for rule in rules if rule), base)


def _rule(line: str) -> _Rule | None:
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    folders_only = line.endswith("/")
    try:
        (pattern,) = GitIgnoreSpec.from_lines([line[:-1] if folders_only else line]).patterns
    except ValueError:
        # Git passes over a line it cannot read, too.
        return None
    assert isinstance(pattern, RegexPattern)
    return _Rule(pattern, folders_only) if pattern.include is not None else None
