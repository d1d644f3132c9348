"""gpujob submit: from job.yaml to a running job."""

from __future__ import annotations

from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import click

from gpujob.cli import envfile, travel
from gpujob.cli.call import Call
from gpujob.cli.exits import Exit
from gpujob.cli.options import spec_argument, verb
from gpujob.cli.progress import bar

if TYPE_CHECKING:
    from gpujob.bundle import Packed
    from gpujob.core.plan import Plan


@verb(
    "submit",
    "submit",
    "submit jobs/qlora.yaml --dry-run",
    "submit job.yaml --env-file .env --detach",
    "submit job.yaml --name second-try --json",
)
@spec_argument
@click.option("--dry-run", is_flag=True, help="Decide everything, show it, do nothing.")
@click.option(
    "--follow/--detach", default=None, help="Watch it until it ends, or return at once. [default: follow on a terminal]"
)
@click.option("--name", metavar="NAME", help="Instead of the name in the file.")
@click.option("--env-file", metavar="FILE", type=click.Path(path_type=Path), help="KEY=VALUE lines with secret values.")
@click.option("--fresh", is_flag=True, help="Mean a new job, even when an ended one of that name exists.")
def command(
    call: Call, file: Path, dry_run: bool, follow: bool | None, name: str | None, env_file: Path | None, fresh: bool
) -> Exit:
    """Run a job: ship what it needs, start it, and see it through interruptions.

    Every submit makes a new job with an id of its own. An ended job of the same name stays as it is, and is named
    unless --fresh says that you know; while one of that name is active, submit is refused. Secrets (names under
    `secrets:`) take their values from --env-file, else from the environment. With --follow the exit code is the
    job's outcome; Ctrl-C detaches and the job goes on.
    """
    from gpujob.client import secrets
    from gpujob.client.submit import refuse_twins, submit
    from gpujob.store.open import open_store

    plan = _plan(call, file, name)
    known = secrets.gather(plan.spec.secrets, plan.store, call.environ, envfile.read(env_file) if env_file else None)
    if not dry_run:
        refuse_twins(call.journal, plan)  # once more in `submit`; here before gigabytes are read
    packed = _pack(call, plan)
    travels = travel.report(packed)
    if dry_run:
        return _show(call, plan, travels)
    _tell(call, plan, travels, fresh)
    store = open_store(plan.store, known.store_env)
    with bar(call.output, "sending", packed.total_bytes) as moved:
        submit(plan, packed, known, call.settings, store, progress=moved)
    follow = call.output.on_terminal if follow is None else follow
    _announce(call, plan, travels, follow)
    return _follow(call, plan.job_id) if follow else Exit.OK


def _plan(call: Call, file: Path, name: str | None) -> Plan:
    from gpujob import jobfile
    from gpujob.core.plan import make_plan, new_job_id

    spec = jobfile.load(file, call.environ)
    return make_plan(
        spec,
        job_id=new_job_id(name or spec.name, SystemRandom()),
        folder=file.absolute().parent,
        default_store=str(call.settings.home.store),
        now=call.now(),
        name=name,
    )


def _pack(call: Call, plan: Plan) -> Packed:
    from gpujob.client.submit import pack

    with bar(call.output, "reading", travel.size_of(plan.local_parts.values())) as moved:
        return pack(plan, call.settings, moved)


def _show(call: Call, plan: Plan, travels: dict[str, Any]) -> Exit:
    """Print a plan and carry none of it out."""
    if call.output.json:
        call.output.document({"dry_run": True, "plan": plan.summary(), "travels": travels})
        return Exit.OK
    hosts = ", ".join(f"{host.ssh or 'this machine'} at {host.price_per_hour:.2f} an hour" for host in plan.hosts)
    lines = [f"Name:    {plan.name}", f"Hosts:   {hosts}", f"Store:   {plan.store}"]
    lines += [f"Runs:    {plan.command or 'the built-in trainer'}", *travel.sentences(travels)]
    for line in (*lines, *(f"Note:    {note}" for note in plan.notes), "Nothing was sent and nothing was started."):
        call.output.say(line)
    return Exit.OK


def _tell(call: Call, plan: Plan, travels: dict[str, Any], fresh: bool) -> None:
    """Say what is about to happen, before it does."""
    if call.output.json:
        return
    entries, _ = call.journal.all()
    for old in [each for each in entries if each.plan.name == plan.name and each.job.terminal][-1:]:
        same = "the same name and spec" if old.plan.spec == plan.spec else "the same name"
        if not fresh:
            call.output.note(f"{old.job.id} ({old.job.state}) has {same}; it stays as it is, this is a new job")
    for line in (*travel.sentences(travels), *(f"Note: {note}" for note in plan.notes)):
        call.output.note(line)


def _announce(call: Call, plan: Plan, travels: dict[str, Any], follow: bool) -> None:
    values = {"id": plan.job_id, "name": plan.name, "store": plan.store, "travels": travels}
    if call.output.json:
        (call.output.item if follow else call.output.document)(values)
        return
    call.output.say(f"Submitted {plan.job_id}.")
    if not follow:
        call.output.say(f"gpujob status {plan.job_id}, gpujob logs {plan.job_id} -f, gpujob cancel {plan.job_id}")


def _follow(call: Call, job_id: str) -> Exit:
    from gpujob.cli.follow import follow, looks

    return follow(call, job_id, looks(call, job_id))
