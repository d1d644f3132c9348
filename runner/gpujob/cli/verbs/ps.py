"""gpujob ps: the jobs, newest first."""

from __future__ import annotations

import click

from gpujob.cli import words
from gpujob.cli.call import Call
from gpujob.cli.options import verb
from gpujob.cli.output import as_json, plain


@verb("ps", "ps", "ps --all", "ps --json")
@click.option("-a", "--all", "everything", is_flag=True, help="Ended jobs as well.")
def command(call: Call, everything: bool) -> None:
    """List the jobs.

    The newest first: where they stand, what is durable, what a loss would cost now, what was spent. Without --all
    those that run, or whose machine may still be billing.
    """
    from gpujob.cli.table import table

    call.wake()
    entries, damaged = call.journal.all()
    shown = [each for each in reversed(entries) if everything or not each.job.terminal or each.job.unreleased]
    jobs = [call.status(entry) for entry in shown]
    if call.output.json:
        call.output.document({"jobs": list(map(plain, jobs)), "damaged": list(map(as_json, damaged))})
        return
    if jobs:
        call.output.show(table(jobs, call.now()))
    else:
        call.output.say("no jobs" if not entries else "no job runs; `gpujob ps --all` lists the ended ones")
    for job in jobs:
        for warning in words.warnings(job):
            call.output.say(f"{job.id}: {warning}")
    for error in damaged:
        call.output.note(f"warning: {error}")
