"""`extends: base.yaml`: one file laid over another, every value still pointing into the file that wrote it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping as Environ
from pathlib import Path

from gpujob.core.errors import Problem
from gpujob.jobfile.expand import expand
from gpujob.jobfile.read import LARGEST, Unreadable, read
from gpujob.jobfile.tree import Mapping, Mark, Scalar

_EXTENDS = "extends"


def resolve(path: Path, environ: Environ[str, str]) -> tuple[Mapping, list[Problem]]:
    """Read a file and all it extends into one expanded tree; raises Unreadable."""
    return _resolve(path, environ, Mark(str(path), 1, 1), ())


def _resolve(
    path: Path, environ: Environ[str, str], asked: Mark, above: tuple[Path, ...]
) -> tuple[Mapping, list[Problem]]:
    if path.resolve() in above:
        ring = " -> ".join(each.name for each in (*above, path))
        raise Unreadable(asked.problem(_EXTENDS, f"goes round in a circle: {ring}"))
    tree, problems = read(str(path), _bytes(path, asked, _EXTENDS if above else ""))
    problems += expand(tree, environ)
    entry = tree.entries.pop(_EXTENDS, None)
    if entry is None:
        return tree, problems
    if not isinstance(entry.node, Scalar) or not entry.node.text:
        raise Unreadable(entry.node.mark.problem(_EXTENDS, "must be the name of one file beside this one"))
    base = path.parent / entry.node.text
    below, inherited = _resolve(base, environ, entry.node.mark, (*above, path.resolve()))
    return _merge(below, tree), [*problems, *inherited]


def _bytes(path: Path, asked: Mark, field: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except FileNotFoundError:
        raise Unreadable(asked.problem(field, f"there is no file {path}", nearest_name(path))) from None
    except IsADirectoryError:
        raise Unreadable(asked.problem(field, f"{path} is a folder", "name the job.yaml in it")) from None
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else "that is no file name"
        raise Unreadable(asked.problem(field, f"{path} cannot be read: {cause}")) from None


def nearest_name(path: Path) -> str:
    """Give a hint that names what lies where `path` does not."""
    folder = path.parent
    try:
        while not folder.is_dir() and folder != folder.parent:
            folder = folder.parent
        names = sorted(each.name for each in folder.iterdir() if not each.name.startswith("."))
    except (OSError, ValueError):
        return ""
    wanted = path.name if folder == path.parent else path.relative_to(folder).parts[0]
    if near := difflib.get_close_matches(wanted, names, n=1, cutoff=0.6):
        rest = path.relative_to(folder).parts[1:]
        found = folder.joinpath(near[0], *rest)
        return f"did you mean {found if found.exists() else folder / near[0]}?"
    return f"{folder} holds {', '.join(names[:5])}{', …' if len(names) > 5 else ''}" if names else ""


def _merge(below: Mapping, above: Mapping) -> Mapping:
    """Lay `above` over `below`: keys are merged all the way down, lists and values replaced."""
    entries = dict(below.entries)
    for key, entry in above.entries.items():
        under = entries.get(key)
        if under and isinstance(under.node, Mapping) and isinstance(entry.node, Mapping):
            entry = type(entry)(entry.mark, _merge(under.node, entry.node))
        entries[key] = entry
    return Mapping(above.mark, entries)
