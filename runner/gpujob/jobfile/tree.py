"""A YAML file as values that remember where they stand and how they were written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Union

from gpujob.core.errors import Problem

Path = tuple[Union[str, int], ...]
"""The way from the top to a value: keys and list positions."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a file; line and column count from 1."""

    path: str
    line: int
    column: int

    def problem(self, field: str, message: str, hint: str = "") -> Problem:
        """Give a problem at this place."""
        return Problem(self.path, self.line, self.column, field, message, hint)


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value. `written` is what the file says, `text` the same after `${VAR}`, `value` what it means."""

    mark: Mark
    written: str
    text: str
    value: str | int | float | bool | None
    plain: bool
    """Written without quotes, so that YAML gives it a type."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a mapping, with its own place, and its value."""

    mark: Mark
    node: Node


@dataclass(slots=True)
class Mapping:
    """Keys and values, in file order."""

    mark: Mark
    entries: dict[str, Entry] = field(default_factory=dict)


@dataclass(slots=True)
class Sequence:
    """A list."""

    mark: Mark
    items: list[Node] = field(default_factory=list)


Node = Union[Scalar, Mapping, Sequence]


def values(node: Node) -> Any:
    """Give plain Python values."""
    if isinstance(node, Mapping):
        return {key: values(entry.node) for key, entry in node.entries.items()}
    if isinstance(node, Sequence):
        return [values(item) for item in node.items]
    return node.value


def scalars(node: Node, path: Path = ()) -> Iterator[tuple[Path, Scalar]]:
    """Walk all values with their paths."""
    if isinstance(node, Mapping):
        for key, entry in node.entries.items():
            yield from scalars(entry.node, (*path, key))
    elif isinstance(node, Sequence):
        for index, item in enumerate(node.items):
            yield from scalars(item, (*path, index))
    else:
        yield path, node


def find(node: Node, path: Path) -> Node | None:
    """Give the value at a path, or None."""
    for step in path:
        if isinstance(node, Mapping) and isinstance(step, str) and step in node.entries:
            node = node.entries[step].node
        elif isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
        else:
            return None
    return node


def put(root: Node, path: Path, node: Node | None) -> None:
    """Replace the value at a path that exists; None removes the key."""
    parent, step = find(root, path[:-1]), path[-1]
    if isinstance(parent, Mapping) and isinstance(step, str):
        if node is None:
            del parent.entries[step]
        else:
            parent.entries[step] = Entry(parent.entries[step].mark, node)
    elif isinstance(parent, Sequence) and isinstance(step, int) and node is not None:
        parent.items[step] = node


def key_mark(root: Node, path: Path) -> Mark:
    """Give the place of the key at a path; for a list's item or the top, that of the value."""
    parent = find(root, path[:-1]) if path else None
    if isinstance(parent, Mapping) and isinstance(path[-1], str) and path[-1] in parent.entries:
        return parent.entries[path[-1]].mark
    node = find(root, path)
    return (node or root).mark


def locate(root: Node, loc: Path) -> Path:
    """Give the part of a pydantic location that exists in the file, without the names of union branches."""
    path: Path = ()
    for step in loc:
        if find(root, (*path, step)) is not None:
            path = (*path, step)
    return path


def dotted(path: Path) -> str:
    """Write a path for people: `hosts[0].ssh`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")
