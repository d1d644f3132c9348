"""A bar with rate and time left while bytes move; only where a person looks at standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpujob.cli.output import Output

Moved = Callable[[int], None]


@contextmanager
def bar(output: Output, what: str, total: int) -> Iterator[Moved | None]:
    """Give a function to be told of moved bytes, or None where nobody would see the bar."""
    if output.json or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn(f"{what:10}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=output.console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda moved: progress.advance(task, moved)
