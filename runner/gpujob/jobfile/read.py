"""Bytes -> tree. What is not well-formed YAML, or more of it than a job.yaml can be, is told in plain sentences."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

import yaml

from gpujob.core.errors import Problem
from gpujob.jobfile import yaml_errors
from gpujob.jobfile.scalars import meaning
from gpujob.jobfile.tree import Entry, Mapping, Mark, Node, Path, Scalar, Sequence, dotted

LARGEST = 256 * 1024
"""Bytes; what is longer is not read further."""
_MOST_VALUES = 20_000
_DEEPEST = 40
_WIDE_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


class Unreadable(Exception):
    """The file gives no tree; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def read(path: str, data: bytes) -> tuple[Mapping, list[Problem]]:
    """Give the tree of a file, called `path` in messages, and what is wrong but passable; raises Unreadable."""
    start = Mark(path, 1, 1)
    text = _decode(start, data)
    try:
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise Unreadable(yaml_errors.explain(path, text, error)) from None
    except RecursionError:
        raise Unreadable(start.problem("", "is nested too deeply")) from None
    if root is None:
        raise Unreadable(start.problem("", "is empty", "`gpujob init` writes a job.yaml to start from"))
    builder = _Builder(path)
    tree = builder.build(root, ())
    if not isinstance(tree, Mapping):
        kind = "a list" if isinstance(tree, Sequence) else "one text"
        hint = "put a space after each colon" if isinstance(tree, Scalar) and ":" in tree.text else ""
        message = f"must be `key: value` lines, such as `name: my-job`; here stands {kind}"
        raise Unreadable(tree.mark.problem("", message, hint))
    return tree, builder.problems


def _decode(start: Mark, data: bytes) -> str:
    if len(data) > LARGEST:
        message = f"is larger than {LARGEST // 1024} KiB, the most a job.yaml can be"
        raise Unreadable(start.problem("", message, "data belongs in a file of its own"))
    if data.startswith(_WIDE_BOMS) or b"\0" in data[:4]:
        raise Unreadable(start.problem("", "is UTF-16 or UTF-32, not UTF-8", "save it as UTF-8"))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # A sequence at the end of the file may be cut off; what stands before the bad byte always decodes.
        mark = yaml_errors.mark_after(start.path, data[: error.start].decode("utf-8-sig"))
        message = f"byte 0x{data[error.start]:02x} is not UTF-8"
        raise Unreadable(mark.problem("", message, "save it as UTF-8")) from None


class _Builder:
    """Turns YAML nodes into our tree; aliases are copied out, up to a limit."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self.count = 0

    def build(self, node: yaml.Node, at: Path) -> Node:
        mark = self._mark(node)
        self.count += 1
        if self.count > _MOST_VALUES:
            message = f"holds more than {_MOST_VALUES} values once its aliases (*name) are copied out"
            raise Unreadable(mark.problem("", message))
        if len(at) > _DEEPEST:
            raise Unreadable(mark.problem("", f"is nested more than {_DEEPEST} deep, or an alias (*name) holds itself"))
        if not node.tag.startswith("tag:yaml.org,2002:") or node.tag.startswith("tag:yaml.org,2002:python"):
            self.problems.append(mark.problem(dotted(at), f"the tag in front of this value ({node.tag}) is not read"))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, mark, at)
        if isinstance(node, yaml.SequenceNode):
            return Sequence(mark, [self.build(item, (*at, index)) for index, item in enumerate(node.value)])
        assert isinstance(node, yaml.ScalarNode)
        return self._scalar(node, mark, at)

    def _mark(self, node: yaml.Node) -> Mark:
        return Mark(self.path, node.start_mark.line + 1, node.start_mark.column + 1)

    def _scalar(self, node: yaml.ScalarNode, mark: Mark, at: Path) -> Scalar:
        text, plain = node.value, node.style is None
        if any(0xD800 <= ord(char) < 0xE000 for char in text):
            self.problems.append(mark.problem(dotted(at), "holds half of a character (a lone surrogate)"))
            text = ""
        return Scalar(mark, text, text, meaning(text) if plain else text, plain)

    def _mapping(self, node: yaml.MappingNode, mark: Mark, at: Path) -> Mapping:
        mapping, merged = Mapping(mark), list[Entry]()
        for key_node, value_node in node.value:
            key, entry = self._entry(key_node, value_node, at)
            if key is None:
                merged.append(entry)
            elif key in mapping.entries:
                lines = f"lines {mapping.entries[key].mark.line} and {entry.mark.line}"
                self.problems.append(entry.mark.problem(dotted((*at, key)), f"is given twice, in {lines}"))
            else:
                mapping.entries[key] = entry
        for entry in merged:
            for key, inherited in self._merged(entry, at):
                mapping.entries.setdefault(key, inherited)
        return mapping

    def _entry(self, key: yaml.Node, value: yaml.Node, at: Path) -> tuple[str | None, Entry]:
        mark = self._mark(key)
        if not isinstance(key, yaml.ScalarNode):
            raise Unreadable(
                mark.problem(
                    dotted(at), "a key must be one word", "`{{ x }}` is written `${X}` here, with a variable X"
                )
            )
        name = None if key.value == "<<" and key.style is None else key.value
        return name, Entry(mark, self.build(value, at if name is None else (*at, name)))

    def _merged(self, entry: Entry, at: Path) -> Iterator[tuple[str, Entry]]:
        for node in entry.node.items if isinstance(entry.node, Sequence) else [entry.node]:
            if isinstance(node, Mapping):
                yield from node.entries.items()
            else:
                self.problems.append(node.mark.problem(dotted(at), "`<<:` takes an alias of keys, such as `<<: *base`"))
