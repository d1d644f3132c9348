"""Tree -> JobSpec. What pydantic objects to becomes one plain sentence at each place."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence as Listing
from typing import Any

from pydantic import ValidationError

from gpujob.core.errors import Problem
from gpujob.core.spec import JobSpec
from gpujob.jobfile.fields import allowed
from gpujob.jobfile.scalars import is_plain_number, oddity
from gpujob.jobfile.secret import looks_secret
from gpujob.jobfile.spelling import advice, meant
from gpujob.jobfile.tree import (
    Entry,
    Mapping,
    Node,
    Path,
    Scalar,
    Sequence,
    dotted,
    find,
    key_mark,
    locate,
    put,
    scalars,
    values,
)

_KEY = "[key]"
_LONGEST_SHOWN = 60


def validate(tree: Mapping) -> tuple[JobSpec | None, list[Problem]]:
    """Give the spec, or None with the problems.

    Unknown keys are reported and then renamed to what they seem to mean, or dropped, so that one of them hides no
    other problem; numbers where a text is due become their own characters. `tree` is changed accordingly.
    """
    unknown: list[Problem] = []
    renamed: set[Path] = set()
    while True:
        spec, errors = _attempt(tree)
        mended = [_mend(tree, error, unknown, renamed) for error in errors]
        if not any(mended):
            break
    odd = {path: problem for path, problem in _odd(tree).items() if not _below(path, renamed)}
    wrong = {path: problem for path, problem in _wrong(tree, errors).items() if not _below(path, renamed)}
    problems = [*unknown, *{**wrong, **odd}.values()]
    for path in renamed:
        put(tree, path, None)
    return (None if problems else spec), problems


def _attempt(tree: Mapping) -> tuple[JobSpec | None, Listing[Any]]:
    try:
        # As JSON and strictly: `true` is no number, "8" in quotes is none either, and the job's record reads the same.
        return JobSpec.model_validate_json(json.dumps(values(tree)), strict=True), []
    except ValidationError as error:
        return None, error.errors(include_url=False, include_input=False)


def _mend(tree: Mapping, error: Any, unknown: list[Problem], renamed: set[Path]) -> bool:
    path = locate(tree, error["loc"])
    node = find(tree, path)
    if error["type"] == "string_type" and isinstance(node, Scalar) and node.plain and is_plain_number(node.text):
        changed = node.value != node.text
        put(tree, path, Scalar(node.mark, node.written, node.text, node.text, node.plain))
        return changed
    parent = find(tree, path[:-1])
    if error["type"] != "extra_forbidden" or not isinstance(parent, Mapping):
        return False
    key = str(path[-1])
    unknown.append(key_mark(tree, path).problem(dotted(path), "is not a key of job.yaml here", advice(path)))
    entry, target = parent.entries.pop(key), meant(path)
    if target and "." not in target and target not in parent.entries:
        parent.entries[target] = Entry(entry.mark, entry.node)
        renamed.add((*path[:-1], target))
    return True


def _below(path: Path, tops: set[Path]) -> bool:
    return any(path[: len(top)] == top for top in tops)


def _odd(tree: Mapping) -> dict[Path, Problem]:
    return {
        path: scalar.mark.problem(dotted(path), said)
        for path, scalar in scalars(tree)
        if scalar.plain and (said := oddity(scalar.text))
    }


def _wrong(tree: Mapping, errors: Listing[Any]) -> dict[Path, Problem]:
    """Give one problem for each place; where branches of a union object in several, the deepest knows best."""
    found: dict[Path, Problem] = {}
    for error in errors:
        path, problem = _problem(tree, error)
        found.setdefault(path, problem)
    return {
        path: problem
        for path, problem in found.items()
        if not any(len(other) > len(path) and other[: len(path)] == path for other in found)
    }


def _problem(tree: Mapping, error: Any) -> tuple[Path, Problem]:
    loc, kind = error["loc"], error["type"]
    if kind == "missing":
        parent = locate(tree, loc[:-1])
        path = (*parent, loc[-1])
        return path, key_mark(tree, parent).problem(dotted(path), f"is missing; it must be {allowed(path)}")
    path = locate(tree, loc)
    said = str(error["ctx"]["error"]) if kind == "value_error" else f"must be {allowed(path)}"
    if not path:
        both = find(tree, ("run",)) and find(tree, ("train",))
        last = max((key_mark(tree, (key,)) for key in ("run", "train")), key=lambda mark: mark.line) if both else None
        return path, (last or tree.mark).problem("", said)
    if loc[-1] == _KEY:
        return path, key_mark(tree, path).problem(dotted(path), said)
    node = find(tree, path) or tree
    stands = f"{said}; here stands {shown(node, path)}"
    return path, node.mark.problem(dotted(path), stands, _hint(node, path, error))


def shown(node: Node, path: Path) -> str:
    """Give a value as a message may hold it: short, as it was written, and never a secret."""
    if isinstance(node, Mapping):
        return "a group of keys"
    if isinstance(node, Sequence):
        return "a list" if node.items else "an empty list"
    if _may_be_secret(node.text, path):
        return "something that may be a secret"
    if node.value is None:
        return "nothing"
    text = node.written if len(node.written) <= _LONGEST_SHOWN else f"{node.written[:_LONGEST_SHOWN]}…"
    visible = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    return f"`{visible}`" if text.strip() else "an empty text"


def _may_be_secret(text: str, path: Path) -> bool:
    if path[:1] == ("secrets",) and not re.fullmatch(r"[A-Z][A-Z0-9_]*", text):
        return True
    return looks_secret(text, next((step for step in reversed(path) if isinstance(step, str)), ""))


def _hint(node: Node, path: Path, error: Any) -> str:
    if not isinstance(node, Scalar):
        return ""
    if node.written != node.text:
        return f"its value comes from the environment{'' if node.text.strip() else ', where it is empty'}"
    if path == ("name",) and (slug := re.sub(r"[^a-z0-9]+", "-", node.text.lower()).strip("-")):
        return f"did you mean {slug[:48].rstrip('-')}?"
    return _quoting(node, error["type"]) or _shape(node, path, error["type"]) or _nearest(node, error)


def _quoting(node: Scalar, kind: str) -> str:
    if kind == "string_type" and node.plain:
        meant_as = "nothing" if node.value is None else str(node.value).lower()
        return f'`{node.text}` without quotes is {meant_as} to YAML: write "{node.text}" for the text'
    if kind in {"int_type", "float_type", "bool_type"} and not node.plain and isinstance(node.value, str):
        return "write it without quotes"
    return ""


def _shape(node: Scalar, path: Path, kind: str) -> str:
    if not node.text or _may_be_secret(node.text, path):
        return "a space is missing after the dash" if node.text.startswith("-") else ""
    if kind in {"model_type", "dict_type"} and re.match(r"[A-Za-z_][\w-]*:\S", node.text):
        return "a space is missing after the colon"
    if kind == "model_type" and path == ("train", "data"):
        return f"write `data: {{path: {node.text}}}`"
    if path[0] == "hosts" and kind in {"model_type", "tuple_type"}:
        return f"write `- ssh: {node.text}` on a line of its own"
    if kind == "tuple_type" and node.text.startswith("-"):
        return "a space is missing after the dash"
    return f"write `[{node.text}]`" if kind == "tuple_type" else ""


def _nearest(node: Scalar, error: Any) -> str:
    choices = re.findall(r"'([^']+)'", error.get("ctx", {}).get("expected", ""))
    near = difflib.get_close_matches(node.text.lower(), choices, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else ""
