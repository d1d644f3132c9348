"""gpujob status: how one job stands."""

from __future__ import annotations

from gpujob.cli import words
from gpujob.cli.call import Call
from gpujob.cli.history import History
from gpujob.cli.options import job_argument, verb
from gpujob.cli.output import plain


@verb("status", "status support-bot", "status support-bot-k3v9qd --json")
@job_argument
def command(call: Call, job: str) -> None:
    """Show how one job stands.

    What it does, how far it is, what is durable, what a loss would cost now, and what was spent.
    """
    from gpujob.cli.live import numbers, panel

    call.wake()
    status = call.status(call.journal.find(job))
    if call.output.json:
        call.output.document(plain(status))
        return
    if call.output.on_terminal:
        call.output.show(panel(status, History()))
        call.output.say(status.sentence)
        return
    call.output.say(f"{status.id}: {status.sentence}")
    rows = [("state", words.state(status)), ("doing", words.doing(status) or "nothing yet")]
    rows += [("step", words.steps(status)), *numbers(status, History())]
    rows += [("submitted", words.moment(status.submitted_at))]
    rows += [("ended", words.moment(status.ended_at))] if status.ended_at else []
    for name, value in (*rows, *(("attention", text) for text in words.warnings(status))):
        call.output.say(f"{name + ':':14}{value}")
