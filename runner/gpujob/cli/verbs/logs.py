"""gpujob logs: what the program printed."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from gpujob.cli.call import Call
from gpujob.cli.options import job_argument, verb
from gpujob.core.errors import UsageError

if TYPE_CHECKING:
    from gpujob.client.journal import JournalEntry
    from gpujob.store.protocol import Store

_ENDS = re.compile(rb"\r\n|\n|\r")


@verb("logs", "logs support-bot", "logs support-bot -f", "logs support-bot -n 100 --attempt 2")
@job_argument
@click.option("-f", "--follow", is_flag=True, help="Go on as it grows, until the job ends; Ctrl-C detaches.")
@click.option("-n", "--tail", type=click.IntRange(min=0), metavar="N", help="Begin with the last N lines.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Of this attempt alone.")
def command(call: Call, job: str, follow: bool, tail: int | None, attempt: int | None) -> None:
    """Print what a job's program printed.

    Over all attempts, oldest first. Control characters are shown as escapes. With --json one line each.
    """
    if follow and attempt:
        raise UsageError("follow", f"attempt {attempt}", "--follow goes over all attempts", "leave one of the two out")
    entry = call.journal.find(job)
    store = call.store(entry)
    if follow:
        _follow(call, store, entry, tail)
    else:
        lines = _lines(_read(store, entry, attempt))
        _print(call, lines if tail is None else deque(lines, maxlen=tail))


def _read(store: Store, entry: JournalEntry, attempt: int | None) -> Iterator[bytes]:
    from gpujob.client import logs

    begun = logs.attempts(store, entry.job.id)
    if attempt and attempt not in begun:
        cause = f"the attempts so far are 1 to {len(begun)}" if begun else "no attempt has begun yet"
        raise UsageError("read", f"the log of attempt {attempt} of {entry.job.id}", cause)
    for each in [attempt] if attempt else begun:
        yield logs.read_stream(store, entry.job.id, each, logs.LOG)


def _follow(call: Call, store: Store, entry: JournalEntry, tail: int | None) -> None:
    """Print the log as it grows; with `tail` what is there at first is cut to so many lines."""
    from gpujob.client import logs

    job_id = entry.job.id
    waiting: deque[str] | None = None if tail is None else deque(maxlen=tail)

    def pause() -> None:
        nonlocal waiting
        if waiting is not None:
            _print(call, waiting)
            waiting = None
        call.sleep(call.settings.poll_seconds)

    def over() -> bool:
        return call.journal.read(job_id).job.terminal

    for line in _lines(logs.follow(store, job_id, over, pause)):
        if waiting is None:
            _print(call, [line])
        else:
            waiting.append(line)
    _print(call, waiting or ())


def _print(call: Call, lines: Iterable[str]) -> None:
    for line in lines:
        if call.output.json:
            call.output.item({"line": line})
        else:
            call.output.say(line)


def _lines(parts: Iterable[bytes]) -> Iterator[str]:
    r"""Split into lines; the `\r` of a progress bar ends one as well.

    So does the end of a part: agents cut a log between lines, and what a killed attempt left torn is a line of its own.
    """
    for part in parts:
        lines = _ENDS.split(part)
        yield from (line.decode("utf-8", "replace") for line in (lines if lines[-1] else lines[:-1]))
