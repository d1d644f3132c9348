"""Paths in job.yaml that must exist on this machine; all are relative to job.yaml's own folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path as File

from gpujob.core.errors import Problem
from gpujob.core.plan import is_local_model
from gpujob.jobfile.extend import nearest_name
from gpujob.jobfile.tree import Mapping, Path, Scalar, dotted, find
from gpujob.jobfile.validate import shown

_KINDS: dict[Path, tuple[str, Callable[[File], bool]]] = {
    ("workdir",): ("folder", File.is_dir),
    ("data",): ("file or folder", File.exists),
    ("image", "build"): ("folder", File.is_dir),
    ("train", "model"): ("folder", File.is_dir),
    ("train", "data", "path"): ("file", File.is_file),
    ("train", "data", "validation"): ("file", File.is_file),
}


def missing(tree: Mapping, folder: File) -> Iterator[Problem]:
    """Give the paths that do not lead to what they should."""
    for path, (kind, is_there) in _KINDS.items():
        node = find(tree, path)
        if not isinstance(node, Scalar) or not isinstance(node.value, str) or "://" in node.text:
            continue
        if node.text.strip() and (problem := _check(path, node, folder, kind, is_there)):
            yield problem


def _check(path: Path, node: Scalar, folder: File, kind: str, is_there: Callable[[File], bool]) -> Problem | None:
    text, field = node.text.strip(), dotted(path)
    if path[-1] == "validation" and text.endswith("%"):
        return None
    if text.startswith("~"):
        return node.mark.problem(field, "`~` is not followed here", "write ${HOME}" + text[1:])
    target = folder / text
    if path[-1] == "model" and not is_local_model(text):
        message = f"could be the folder {text} here or a model of that name on the hub"
        return node.mark.problem(field, message, f"write ./{text} for the folder") if _is(File.is_dir, target) else None
    if _is(is_there, target):
        return None
    if _is(File.exists, target):
        return node.mark.problem(field, f"{shown(node, path)} must be a {kind}, and is none")
    return node.mark.problem(
        field, f"there is no {kind} {shown(node, path)} in {folder.resolve()}", nearest_name(target)
    )


def _is(question: Callable[[File], bool], target: File) -> bool:
    try:
        return question(target)
    except (OSError, ValueError):
        return False
