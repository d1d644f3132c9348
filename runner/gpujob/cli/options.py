"""What several verbs' command lines share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Decorated = Callable[..., Any]

json_option = click.option(
    "--json", is_flag=True, expose_value=False, help="Print JSON instead of text; errors as well."
)
"""Which output a call has is decided before its words are parsed, so that a wrong option is told in JSON as well."""

job_argument = click.argument("job", metavar="ID")


def verb(name: str, *examples: str) -> Callable[[Decorated], click.Command]:
    """Make a function a verb: `--json`, `--help`, and examples below it."""

    def make(function: Decorated) -> click.Command:
        epilog = "\b\nExamples:\n" + "\n".join(f"  gpujob {example}" for example in examples)
        return click.command(name, epilog=epilog)(json_option(click.pass_obj(function)))

    return make


def spec_argument(function: Decorated) -> Decorated:
    """Take FILE, job.yaml when left out."""
    return click.argument("file", type=click.Path(path_type=Path), default=Path("job.yaml"))(function)
