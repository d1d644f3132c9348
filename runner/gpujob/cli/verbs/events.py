"""gpujob events: what happened to a job."""

from __future__ import annotations

from gpujob.cli import words
from gpujob.cli.call import Call
from gpujob.cli.options import job_argument, verb
from gpujob.cli.output import plain
from gpujob.core.errors import StoreError


@verb("events", "events support-bot", "events support-bot --json")
@job_argument
def command(call: Call, job: str) -> None:
    """Print what happened to a job: attempts, interruptions, checkpoints.

    Oldest first, over all attempts: what this computer saw and what the machines told. With --json one line each.
    """
    from gpujob.client.logs import events

    entry = call.journal.find(job)
    try:
        found = events(call.store(entry), entry)
    except StoreError as error:
        call.output.note(f"warning: {error}\n  what the machines told is missing below")
        found = events(None, entry)
    for event in found:
        if call.output.json:
            call.output.item(plain(event))
        else:
            call.output.say(f"{words.moment(event.at)}  attempt {event.attempt}  {event.kind:12}  {event.text}")
