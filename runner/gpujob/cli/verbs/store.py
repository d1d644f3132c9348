"""gpujob store check: whether a bucket or folder can hold jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpujob.cli import envfile
from gpujob.cli.call import Call
from gpujob.cli.exits import Exit
from gpujob.cli.options import verb
from gpujob.cli.output import Output
from gpujob.core.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from gpujob.store.findings import Finding

_STYLES = {"ok": "green", "warn": "yellow", "error": "bold red"}


@verb("store", "store check s3://my-bucket/gpujob", "store check /mnt/nas/gpujob --json")
@click.argument("act", metavar="check", type=click.Choice(["check"]))
@click.argument("url")
@click.option("--env-file", metavar="FILE", type=click.Path(path_type=Path), help="KEY=VALUE lines with credentials.")
def command(call: Call, act: str, url: str, env_file: Path | None) -> Exit:
    """Prove that a bucket or folder can hold jobs, and say what is missing.

    Tries, with the credentials an agent would get: every right a job needs, the clock, whether writes are seen at
    once, conditional writes with many writers, an object of several parts, speed; and looks at the bucket's rules.
    What it writes lies below a probe-… prefix of its own and is deleted. Exits with 20 when a job would fail.
    """
    from gpujob.store import urls
    from gpujob.store.check import check

    shown = urls.without_credentials(url)
    if urls.scheme(url) in urls.MEMORY:
        raise UsageError("check", shown, "it ends with the process that opens it", "name a bucket or a folder")
    with _telling(call.output) as say:
        found = check(url, {**call.environ, **(envfile.read(env_file) if env_file else {})}, call.now, say)
    levels = {finding.level.value for finding in found}
    worst = next(level for level in reversed(_STYLES) if level in levels)
    if call.output.json:
        call.output.document({"url": shown, "worst": worst, "findings": list(map(asdict, found))})
    else:
        call.output.show(_table(found))
        for finding in found:
            if finding.hint:
                call.output.say(f"\n{finding.check}: {finding.hint}")
    return Exit.STORE if worst == "error" else Exit.OK


def _table(found: Sequence[Finding]) -> Table:
    from rich.table import Table

    from gpujob.cli.live import safe_text

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("CHECK", "", "FOUND"):
        drawn.add_column(name, no_wrap=name != "FOUND", overflow="fold")
    for each in found:
        level = safe_text(each.level.value, _STYLES[each.level.value])
        drawn.add_row(safe_text(each.check), level, safe_text(each.text))
    return drawn


@contextmanager
def _telling(output: Output) -> Iterator[Callable[[str], None]]:
    """Give a function that shows what is being done; only where a person looks at standard error."""
    if output.json or not sys.stderr.isatty():
        yield lambda text: None
        return
    with output.console(stderr=True).status("opening") as status:
        yield status.update
