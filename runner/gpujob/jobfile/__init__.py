"""Reading job.yaml: every mistake at once, each with file, line, column, field and the way out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpujob.core.errors import Problem, SpecError
from gpujob.core.spec import JobSpec
from gpujob.jobfile.extend import resolve
from gpujob.jobfile.paths import missing
from gpujob.jobfile.read import Unreadable
from gpujob.jobfile.reference import reference
from gpujob.jobfile.rules import conflicts, secrets_in_the_open
from gpujob.jobfile.template import template
from gpujob.jobfile.validate import validate

__all__ = ["load", "reference", "template"]


def load(path: Path, environ: Mapping[str, str]) -> JobSpec:
    """Read a job.yaml with all it extends, `${VAR}` from `environ`; raises SpecError with every problem."""
    try:
        tree, problems = resolve(path, environ)
    except Unreadable as error:
        raise SpecError(str(path), (error.problem,)) from None
    spec, wrong = validate(tree)
    for found in (wrong, secrets_in_the_open(tree), missing(tree, path.parent), conflicts(spec, tree) if spec else ()):
        # One problem at a place: the first to be found there explains the others.
        known = {(each.path, each.line, each.column) for each in problems}
        problems += [each for each in found if (each.path, each.line, each.column) not in known]
    if problems or spec is None:
        raise SpecError(str(path), _in_order(path, problems))
    return spec


def _in_order(path: Path, problems: list[Problem]) -> tuple[Problem, ...]:
    """Sort by place, the file that was asked for first."""
    return tuple(sorted(problems, key=lambda each: (each.path != str(path), each.path, each.line, each.column)))
