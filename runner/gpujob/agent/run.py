"""One attempt, top to bottom."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from pydantic import ValidationError

from gpujob.agent import contract, environment, report
from gpujob.agent.attempt import Attempt
from gpujob.agent.child import Child
from gpujob.agent.clock import Clock
from gpujob.agent.ending import Ending, Stop, Stopped
from gpujob.agent.finish import finish
from gpujob.agent.memory import oom_kills
from gpujob.agent.notices import Notices
from gpujob.agent.output import Output, Pump
from gpujob.agent.prepare import Prepared, prepare
from gpujob.agent.work import Work
from gpujob.checkpoints import lease
from gpujob.checkpoints.lease import Held
from gpujob.core.errors import Damaged, StoreUnavailable
from gpujob.core.layout import JobKeys
from gpujob.core.plan import Plan
from gpujob.core.reasons import Reason
from gpujob.core.records import Launch, Phase
from gpujob.store.protocol import Store

_LAST_WORDS_SECONDS = 10.0
"""How long it may take to read what killed processes had printed."""


def run(launch: Launch, store: Store, machine: Mapping[str, str], clock: Clock | None = None) -> bool:
    """Run one attempt from its lease to its report; say whether a report was left.

    `machine` is the agent's own environment. To be called by the main thread.
    """
    with Notices() as notices:
        attempt = Attempt(launch, store, machine, clock or Clock(), notices)
        try:
            ending = _live(attempt)
        except Stopped as stopped:
            ending = Ending(stopped.stop.reason, stopped.stop.sentence)
        except Exception as error:
            ending = report.of_error(error)
        return finish(attempt, ending)


def _live(attempt: Attempt) -> Ending:
    held, plan = _take_over(attempt)
    prepared = _prepare(attempt, held, plan)
    attempt.resume_from(prepared.step)
    environ = contract.environ(attempt.launch, plan, attempt.machine, prepared.resume)
    if plan.spec.setup is not None:
        attempt.phase = Phase.SETUP
        ended = _program(attempt, "setup", contract.shell(plan.spec.setup), environ)
        if ended.reason is not Reason.DONE:
            return ended
    python = environment.choose(attempt.host.machine) if _lacks(attempt, plan) else environment.Choice(sys.executable)
    if python.make is not None:
        attempt.phase = Phase.SETUP
        ended = _program(attempt, "installation", environment.argv(python.make), _installing(attempt, environ))
        if ended.reason is not Reason.DONE:
            return ended
    attempt.phase = Phase.TRAINING
    return _program(attempt, "program", contract.command(plan, python.python), environ)


def _lacks(attempt: Attempt, plan: Plan) -> bool:
    """Say whether the machine may lack what training needs: on a person's own, nothing is installed unasked."""
    return attempt.launch.rented and plan.spec.train is not None


def _installing(attempt: Attempt, environ: Mapping[str, str]) -> dict[str, str]:
    """Give the installer the agent's own modules, and no secret of the job."""
    without = {name: value for name, value in environ.items() if name not in attempt.launch.secrets}
    return {**without, "PYTHONPATH": attempt.machine.get("PYTHONPATH", "")}


def _take_over(attempt: Attempt) -> tuple[Held, Plan]:
    """Get the lease, then the plan; from here on the attempt beats."""
    launch, store = attempt.launch, attempt.store
    patience = attempt.patience(heed_stop=True)
    held = attempt.held = patience.insist(
        "take the lease from",
        lambda moved: lease.acquire(
            store, launch.job_id, launch.attempt, attempt.holder, attempt.clock.now(), driver=launch.driver
        ),
    )
    head = patience.insist("read the head from", lambda moved: lease.check(held))
    plan = patience.insist("read the plan from", lambda moved: _read_plan(store, launch.job_id))
    attempt.begin(held, plan, head)
    return held, plan


def _read_plan(store: Store, job_id: str) -> Plan:
    try:
        return Plan.decode(store.get(JobKeys(job_id).plan))
    except ValidationError as error:
        raise Damaged("read", f"the plan of job {job_id}", f"{error.error_count()} fields are wrong") from error


def _prepare(attempt: Attempt, held: Held, plan: Plan) -> Prepared:
    """Unpack and restore beside the main loop: limits, a cancel and a signal end that as well."""
    patience = attempt.patience()
    while True:
        work = Work(
            lambda: prepare(held, plan, attempt.host, attempt.events.say, patience.moved),
            attempt.notices.wake,
            "prepare",
        )
        _watch(attempt, work.is_done)
        try:
            return work.result()
        except StoreUnavailable as error:
            if patience.over:
                raise
            attempt.events.say("store", f"tried again in a moment: {error}")
        _watch(attempt, attempt.after(attempt.launch.beat_seconds))


def _watch(attempt: Attempt, done: Callable[[], bool]) -> None:
    """Wait for something of our own that can be left alone when there is a reason to stop."""
    if stop := attempt.watch(done):
        raise Stopped(stop)


def _program(attempt: Attempt, what: str, argv: Sequence[str], environ: Mapping[str, str]) -> Ending:
    """Run a program to its end, or to ours; afterwards no process of the attempt is left."""
    kills = oom_kills()
    output = Output(attempt.paths.log, attempt.redactor, attempt.clock)
    if attempt.phase is Phase.TRAINING:
        attempt.output = output
    child = Child(argv, environ, attempt.paths.work, attempt.machine)
    pump = Pump(child.output, output)
    try:
        stop = attempt.watch(lambda: child.code is not None)
        if stop is not None:
            _end(attempt, child, stop)
    finally:
        child.kill()
        pump.join(_LAST_WORDS_SECONDS)
        output.close()
    attempt.progress.read()
    if output.failure:
        attempt.events.say("log", f"the rest of the log could not be kept: {output.failure}")
    code, verdict = child.code, report.read_verdict(attempt.paths.verdict)
    assert code is not None
    return report.of_program(what, code, stop, verdict, output.evidence, oom_kills() - kills)


def _end(attempt: Attempt, child: Child, stop: Stop) -> None:
    """Ask the program to save and end, and give it the grace for that."""
    grace = attempt.limits.grace if stop.grace is None else stop.grace
    attempt.events.say("stopping", stop.sentence)
    over = attempt.after(grace)
    if grace > 0:
        child.ask()
    while child.group_lives() and not over() and attempt.fenced is None:
        attempt.attend()
        attempt.notices.wait(attempt.tick)
