"""What YAML's parser objects to, as one plain sentence at the place a person must go to."""

from __future__ import annotations

import re

import yaml

from gpujob.core.errors import Problem
from gpujob.jobfile.tree import Mark

_NO_SPACE = re.compile(r"\s*(?:- )?([A-Za-z_][\w-]*):(?=[^\s/])")
_LINE_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_RESERVED = re.compile(r"found character '([@`%|>])'")
_BEGINNINGS = {
    "alias": "a value that begins with * is an alias to YAML, and no value of that name is marked with &",
    "an anchor": "a value that begins with & gives a name to what follows, and here nothing can have one",
    "a tag": "a value that begins with ! is a tag to YAML",
    "a directive": "a line that begins with % is an instruction to YAML's reader",
    "sequence entries": "a list begins on the line after its key, or stands in [ ]",
    "a block scalar": "after | or > at a value's start, its text begins on the next line",
}


def explain(path: str, text: str, error: yaml.YAMLError) -> Problem:
    """Give the problem a parser's error stands for."""
    if isinstance(error, yaml.reader.ReaderError):
        message = f"holds the control character {error.character:#04x}"
        return mark_after(path, text[: error.position]).problem("", message, "remove it")
    assert isinstance(error, yaml.MarkedYAMLError), "compose raises no other"
    assert error.problem_mark is not None
    return _Objection(path, _LINE_BREAK.split(text), error, error.problem_mark).problem()


def mark_after(path: str, before: str) -> Mark:
    """Give the place just after a text."""
    lines = _LINE_BREAK.split(before)
    return Mark(path, len(lines), len(lines[-1]) + 1)


class _Objection:
    """One error of the parser, with the lines around it."""

    def __init__(self, path: str, lines: list[str], error: yaml.MarkedYAMLError, mark: yaml.Mark) -> None:
        self.path, self.lines = path, lines
        self.said, self.context = error.problem or "", error.context or ""
        start = error.context_mark or mark
        self.line, self.column = mark.line, mark.column
        self.start_line, self.start_column = start.line, start.column

    def problem(self) -> Problem:
        """Give the first explanation that fits."""
        for explanation in (
            self._document,
            self._tab,
            self._beginning,
            self._escape,
            self._quote,
            self._nothing,
            self._bracket,
            self._reserved,
            self._colon,
            self._second_colon,
            self._indentation,
        ):
            if found := explanation():
                return found
        return self._here(f"is not YAML: {self.said}")

    def _text(self, line: int) -> str:
        return self.lines[line] if line < len(self.lines) else ""

    def _here(self, message: str, hint: str = "") -> Problem:
        return self._at(self.line, self.column, message, hint)

    def _at(self, line: int, column: int, message: str, hint: str = "") -> Problem:
        return Mark(self.path, line + 1, column + 1).problem("", message, hint)

    def _document(self) -> Problem | None:
        if "another document" not in self.said:
            return None
        return self._here("a second document begins here (---); a job.yaml has one", "one file for each job")

    def _tab(self) -> Problem | None:
        indent = re.match(r"\s*", self._text(self.line))
        if r"found character '\t'" not in self.said and "\t" not in (indent[0] if indent else ""):
            return None
        column = max(0, self._text(self.line).find("\t"))
        return self._at(self.line, column, "a tab cannot indent in YAML", "use spaces")

    def _beginning(self) -> Problem | None:
        for word, message in _BEGINNINGS.items():
            if word in self.context or word in self.said:
                return self._at(self.start_line, self.start_column, message, "put the value in quotes")
        return None

    def _escape(self) -> Problem | None:
        if "escape" not in self.said:
            return None
        return self._here('a backslash in "…" begins an escape that YAML does not know', "use '…' or / instead")

    def _quote(self) -> Problem | None:
        message, hint = "a quote that opens here is not closed", "close it on the same line"
        if "quoted scalar" in self.context and ("end of stream" in self.said or "document" in self.said):
            return self._at(self.start_line, self.start_column, message, hint)
        if "but found '<scalar>'" not in self.said:
            return None
        for line in range(self.start_line, self.line + 1):
            if (quote := _open_quote(self._text(line))) is not None:
                return self._at(line, quote, message, hint)
        before = self._text(self.line)[: self.column].rstrip()
        if before.endswith(("'", '"')):
            return self._here("a quoted value ends before this text", "put the whole value in one pair of quotes")
        return None

    def _nothing(self) -> Problem | None:
        return self._here("a value is missing before this") if "expected the node content" in self.said else None

    def _bracket(self) -> Problem | None:
        kinds = {"while parsing a flow mapping": ("{", "}"), "while parsing a flow sequence": ("[", "]")}
        if self.context in kinds:
            opening, closing = kinds[self.context]
            if (dollar := self._text(self.line)[: self.column + 1].rfind("${")) >= 0:
                message = f"${{…}} inside {opening} {closing} needs quotes"
                return self._at(self.line, dollar, message, 'write "${…}"')
            message = f"the {opening} that opens here has no {closing}, or a comma is missing"
            return self._at(self.start_line, self.start_column, message)
        if stray := re.search(r"found '([]}])'", self.said):
            return self._here(f"a {stray[1]} closes nothing here")
        return None

    def _reserved(self) -> Problem | None:
        if not (found := _RESERVED.search(self.said)):
            return None
        return self._here(f"a value cannot begin with {found[1]}", "put the value in quotes")

    def _colon(self) -> Problem | None:
        first = self.start_line if "expected ':'" in self.said else max(0, self.line - 1)
        for line in range(first, min(self.line, len(self.lines) - 1) + 1):
            if ("expected ':'" in self.said or "mapping values" in self.said) and (
                found := _NO_SPACE.match(self._text(line))
            ):
                return self._at(line, found.end() - 1, "a space is missing after this colon", f"write `{found[1]}: …`")
        if "expected ':'" not in self.said:
            return None
        return self._at(self.start_line, self.start_column, "this line has no `key: value`", "a colon is missing")

    def _second_colon(self) -> Problem | None:
        if "mapping values" not in self.said or ": " not in self._text(self.line)[: self.column]:
            return None
        return self._here("a second `: ` on one line", "put the value in quotes")

    def _indentation(self) -> Problem | None:
        if "mapping values" in self.said:
            column = len(self._text(self.line)) - len(self._text(self.line).lstrip())
            message = "this line is indented deeper than the one before, which has a value already"
            return self._at(self.line, column, message, "keys of one group begin in the same column")
        if "<block end>" not in self.said and "<document start>" not in self.said:
            return None
        if "found '-'" in self.said:
            return self._here("a list item (- …) stands where a `key: value` is due")
        return self._here(
            "the indentation of this line fits none above it", "keys of one group begin in the same column"
        )


def _open_quote(line: str) -> int | None:
    """Give the column of a quote that its line opens and does not close."""
    opened: tuple[str, int] | None = None
    for column, char in enumerate(line):
        if opened is None and char in "'\"" and line[:column].rstrip(" ").endswith((":", "-", "[", ",", "{")):
            opened = (char, column)
        elif opened and char == opened[0]:
            opened = None
    return opened[1] if opened else None
