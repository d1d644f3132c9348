"""gpujob cancel: a person no longer wants a job."""

from __future__ import annotations

from gpujob.cli.call import Call
from gpujob.cli.options import job_argument, verb
from gpujob.cli.output import plain


@verb("cancel", "cancel support-bot", "cancel support-bot && gpujob wait support-bot")
@job_argument
def command(call: Call, job: str) -> None:
    """End a job; its last checkpoint stays.

    The program is asked to save first and has the spec's grace time for it. The wish is noted and fulfilled even when
    this computer goes off; `gpujob wait ID` waits for the end. A job that is over stays as it is.
    """
    from gpujob.client.cancel import cancel

    entry = cancel(call.settings, call.journal.find(job).job.id)
    status = call.status(entry)
    over = f"{status.id} is over: {status.sentence}"
    noted = f"{status.id} is being stopped, after it has saved. gpujob wait {status.id} waits for its end"
    call.output.result(plain(status), over if entry.job.terminal else noted)
