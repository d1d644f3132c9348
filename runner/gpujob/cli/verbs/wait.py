"""gpujob wait: until jobs have ended."""

from __future__ import annotations

import click

from gpujob.cli.call import Call
from gpujob.cli.exits import Exit
from gpujob.cli.options import verb
from gpujob.cli.output import plain


@verb("wait", "wait support-bot", "wait job-a job-b && gpujob pull job-a result")
@click.argument("jobs", metavar="ID...", nargs=-1, required=True)
def command(call: Call, jobs: tuple[str, ...]) -> Exit:
    """Wait for jobs to end; the exit code tells how.

    0 when the training of every one finished; else the code of the first one given that did not: 12 failed,
    13 cancelled, 14 limit reached.
    """
    from gpujob.cli.follow import outcome, polls
    from gpujob.core.reasons import Reason

    entries = []
    for job_id in [call.journal.find(job).job.id for job in jobs]:
        for entry, _ in polls(call, job_id):
            last = entry
        entries.append(last)
    ends = [call.status(entry) for entry in entries]
    if call.output.json:
        call.output.document({"jobs": list(map(plain, ends))})
    for status in ends:
        call.output.say(f"{status.id}: {status.sentence}")
    return outcome(next((each.reason for each in ends if each.reason is not Reason.DONE), Reason.DONE))
