"""`${VAR}` and `${VAR:-default}` in values, from the environment; `$$` is a dollar sign.

Only values are expanded, after parsing, so that no variable can add keys. `run` and `setup` are left to the shell.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping as Environ
from dataclasses import replace

from gpujob.core.errors import Problem
from gpujob.jobfile.scalars import meaning
from gpujob.jobfile.tree import Node, Path, Scalar, dotted, put, scalars

_SHELL = {("run",), ("setup",)}
_DOLLAR = re.compile(r"\$(?:\$|\{([^{}]*)\}|\{)")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


def expand(tree: Node, environ: Environ[str, str]) -> list[Problem]:
    """Expand all values in place; give what could not be."""
    problems: list[Problem] = []
    for path, scalar in list(scalars(tree)):
        if path not in _SHELL and "$" in scalar.text:
            put(tree, path, _expanded(path, scalar, environ, problems))
    return problems


def _expanded(path: Path, scalar: Scalar, environ: Environ[str, str], problems: list[Problem]) -> Scalar:
    def value_of(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        variable = _VARIABLE.fullmatch(match[1] or "")
        if variable is None:
            message = f"`{match[0]}` is not understood: write ${{NAME}} or ${{NAME:-default}}"
            problems.append(scalar.mark.problem(dotted(path), message, "a plain dollar sign before { is written $$"))
            return match[0]
        name, default = variable[1], variable[2]
        value = environ.get(name)
        if value is None and default is None:
            problems.append(scalar.mark.problem(dotted(path), *_missing(name, environ)))
        return value or default or ""

    text = _DOLLAR.sub(value_of, scalar.text)
    # An empty variable is an empty text: to read it as null would turn `ssh: ${HOST}` into this machine.
    value = meaning(text) if scalar.plain and text else text
    return replace(scalar, text=text, value=value)


def _missing(name: str, environ: Environ[str, str]) -> tuple[str, str]:
    near = difflib.get_close_matches(name, environ, n=1, cutoff=0.75)
    hint = f"did you mean ${{{near[0]}}}?" if near else f"export {name}=…, or give a default: ${{{name}:-…}}"
    return f"the environment has no {name}", hint
