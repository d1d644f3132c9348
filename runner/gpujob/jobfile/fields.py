"""The models of core.spec seen as a table: which keys there are, and what each takes, in words."""

from __future__ import annotations

import types
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from gpujob.core.spec import JobSpec, Part
from gpujob.core.units import Allowed
from gpujob.jobfile.tree import Path

EACH = "*"
"""Stands for any position of a list in a path."""

_BOUNDS = {Gt: ("gt", "more than"), Ge: ("ge", "at least"), Lt: ("lt", "less than"), Le: ("le", "at most")}
_SIMPLE = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


@lru_cache(maxsize=1)
def fields() -> dict[Path, FieldInfo]:
    """Give every key of job.yaml by its path; lists count as `*`."""
    return dict(_walk(JobSpec, ()))


def siblings(path: Path) -> list[str]:
    """Give the keys known beside the one at `path`."""
    parent = _general(path)[:-1]
    return [str(known[-1]) for known in fields() if known[:-1] == parent]


def allowed(path: Path) -> str:
    """Say what the field at `path` takes; for a place inside a list or a free mapping, what goes there."""
    general = _general(path)
    if info := fields().get(general):
        return words(info)
    parent = fields().get(general[:-1])
    inner = [each for each in get_args(parent.annotation) if each is not Ellipsis] if parent else []
    return _words(inner[-1], ()) if inner else "something else"


def words(info: FieldInfo) -> str:
    """Say what a field takes."""
    return _words(info.annotation, tuple(info.metadata))


def parts(annotation: Any) -> Iterator[tuple[type[Part], Path]]:
    """Give the models inside a type, each with the path step that leads to it."""
    if isinstance(annotation, type) and issubclass(annotation, Part):
        yield annotation, ()
        return
    step: Path = (EACH,) if get_origin(annotation) is tuple else ()
    for argument in () if get_origin(annotation) is Literal else get_args(annotation):
        for part, inner in parts(argument):
            yield part, step + inner


def _walk(model: type[Part], path: Path) -> Iterator[tuple[Path, FieldInfo]]:
    for name, info in model.model_fields.items():
        yield (*path, name), info
        for part, step in parts(info.annotation):
            yield from _walk(part, (*path, name, *step))


def _general(path: Path) -> Path:
    return tuple(EACH if isinstance(step, int) else step for step in path)


def _words(annotation: Any, metadata: tuple[Any, ...]) -> str:
    if said := [each.text for each in metadata if isinstance(each, Allowed)]:
        return said[0]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _words(arguments[0], (*arguments[1:], *metadata))
    if origin in (Union, types.UnionType):
        return _choice([_words(each, metadata) for each in arguments if each is not type(None)])
    if origin is Literal:
        return _choice([f"`{each}`" for each in arguments])
    if origin is tuple:
        return "a list of texts"
    if origin is dict:
        return "names with their values, such as `{NAME: value}`"
    if issubclass(annotation, Enum):
        return _choice([f"`{each.value}`" for each in annotation])
    if issubclass(annotation, Part):
        return f"keys of its own, indented below it: {', '.join(annotation.model_fields)}"
    return " ".join([_SIMPLE[annotation], *_bounds(metadata)])


def _bounds(metadata: tuple[Any, ...]) -> list[str]:
    constraints = [each for item in metadata for each in (item.metadata if isinstance(item, FieldInfo) else [item])]
    found = [
        f"{text} {getattr(each, name):.12g}"
        for each in constraints
        for kind, (name, text) in _BOUNDS.items()
        if isinstance(each, kind)
    ]
    return [" and ".join(found)] if found else []


def _choice(options: list[str]) -> str:
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"
