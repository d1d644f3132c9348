"""gpujob init: a job.yaml to start from."""

from __future__ import annotations

from pathlib import Path

import click

from gpujob.cli.call import Call
from gpujob.cli.options import verb
from gpujob.core.errors import UsageError

_NAME = "job.yaml"


@verb("init", "init", "init my-project")
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), default=Path())
def command(call: Call, folder: Path) -> None:
    """Write a commented job.yaml to start from.

    It goes into DIR, the current folder when left out. A job.yaml that is there already is never overwritten.
    """
    from gpujob import files, jobfile

    path = folder / _NAME
    if path.exists() or path.is_symlink():
        raise UsageError("write", str(path), "it is there already, and init never overwrites", "choose another DIR")
    if folder.exists() and not folder.is_dir():
        raise UsageError("write", str(path), f"{folder} is not a folder")
    files.write(path, jobfile.template().encode())
    call.output.result(
        {"path": str(path)}, f"Wrote {path}. Fill it in, then: gpujob validate {path}, gpujob submit {path}"
    )
