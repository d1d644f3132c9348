"""gpujob host check: whether a machine can run jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpujob.cli.call import Call
from gpujob.cli.exits import Exit
from gpujob.cli.options import verb
from gpujob.cli.output import plain

if TYPE_CHECKING:
    from rich.table import Table

    from gpujob.core.spec import Host
    from gpujob.hosts.survey import Survey
    from gpujob.hosts.trial import Trial
    from gpujob.transport.protocol import Transport


@verb("host", "host check gpu-box --store s3://my-bucket/gpujob", "host check root@203.0.113.7:40022 --json")
@click.argument("act", metavar="check", type=click.Choice(["check"]))
@click.argument("name")
@click.option("--store", metavar="URL", default="", help="Whether this store can be reached from there as well.")
def command(call: Call, act: str, name: str, store: str) -> Exit:
    """Look at a machine, and say whether jobs can run there.

    NAME is an alias of ~/.ssh/config, or user@host:port. An unknown host key is shown and asked about. Nothing is
    left there. Where there are a GPU and torch, it multiplies matrices for two seconds. Exits with 21 when no job
    could start there.
    """
    from gpujob.cli.ask import person
    from gpujob.hosts.endpoint import endpoint
    from gpujob.hosts.needs import Needs, refusals, warnings
    from gpujob.hosts.probe import probe
    from gpujob.store.credentials import credentials
    from gpujob.transport.open import open_transport

    needs = Needs(store=endpoint(store, credentials(store, call.environ)) if store else "")
    machine = open_transport(_spec(name), call.settings.home, call.environ, person())
    try:
        survey = probe(machine, store=needs.store)
        trial, cannot = _trial(machine, survey)
    finally:
        machine.close()
    refused = (*refusals(survey, needs), *cannot)
    odd = warnings(survey, needs)
    if call.output.json:
        found = {"refusals": refused, "warnings": odd, "matmul": plain(trial) if trial else None}
        call.output.document({"host": name, "survey": plain(survey), **found})
    else:
        call.output.show(_table(survey))
        call.output.say(f"\n{_speed(survey, trial)}")
        for each in odd:
            call.output.say(f"warning: {each}")
        for each in refused:
            call.output.say(f"refused: {each}")
        call.output.say(f"{name}: no job can start there" if refused else f"{name}: jobs can run there")
    return Exit.HOST if refused else Exit.OK


def _spec(name: str) -> Host:
    from pydantic import ValidationError

    from gpujob.core.errors import UsageError
    from gpujob.core.spec import Host

    try:
        return Host(ssh=name)
    except ValidationError as error:
        raise UsageError("check", repr(name), "it names no machine", "give an alias or user@host:port") from error


def _trial(machine: Transport, survey: Survey) -> tuple[Trial | None, tuple[str, ...]]:
    """Try the GPU, where there is one and torch; what keeps it from working keeps a job from it as well."""
    from gpujob.core.errors import HostError, HostUnreachable
    from gpujob.hosts.trial import matmul

    if not survey.gpus or survey.python is None or not survey.python.torch:
        return None, ()
    try:
        trial = matmul(machine, survey.python.path)
    except HostUnreachable:
        raise
    except HostError as error:
        return None, (f"its GPU does not work with its torch {survey.python.torch}: {error.cause}; {error.hint}",)
    wrong = "its GPU multiplies wrong: the result is off by {:.0%}; choose another machine"
    return trial, () if trial.right else (wrong.format(trial.error),)


def _speed(survey: Survey, trial: Trial | None) -> str:
    if trial:
        return f"{trial.device}: {trial.teraflops:.1f} TFLOP/s multiplying bfloat16 matrices of 4096 × 4096"
    if survey.gpus and survey.python and survey.python.torch:
        return "The GPU was tried, and failed."
    return f"The GPU was not tried: there is no {'torch' if survey.gpus else 'GPU'}."


def _table(survey: Survey) -> Table:
    from rich.table import Table

    from gpujob.cli.live import safe_text
    from gpujob.cli.machine import rows

    drawn = Table.grid(padding=(0, 2))
    drawn.add_column(style="dim", no_wrap=True)
    drawn.add_column(overflow="fold")
    for name, value in rows(survey):
        drawn.add_row(safe_text(name), safe_text(value))
    return drawn
