"""The end of an attempt: the last checkpoint and the result, then the report, then the lease."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from gpujob import files
from gpujob.agent import report
from gpujob.agent.attempt import Attempt, cancelled
from gpujob.agent.ending import Ending
from gpujob.agent.patience import Patience
from gpujob.checkpoints import head as heads
from gpujob.checkpoints import lease, publish
from gpujob.core.errors import Damaged, Fenced, GpujobError, StoreDenied, StoreError, StoreUnavailable
from gpujob.core.reasons import OUTCOMES, Reason
from gpujob.core.records import ExitReport, Intent, Phase

_HURRIED = frozenset({Reason.STORE_ERROR, Reason.LIMIT_TIME, Reason.LIMIT_COST})
"""Ends after which waiting long for the store would cost what the end was to save."""
_LONGEST_SENTENCE = 600


def finish(attempt: Attempt, ending: Ending) -> bool:
    """Leave everything as the next attempt, or the person, needs it; say whether a report could be left.

    A superseded attempt leaves its own report and touches nothing else.
    """
    attempt.phase = Phase.FINISHING
    patience = attempt.patience(attempt.limits.grace if ending.reason in _HURRIED else None)
    try:
        ending = _deliver(attempt, ending, patience)
    except Exception as error:
        ending = report.of_error(error)
    if ending.reason is Reason.SUPERSEDED:
        attempt.end_threads()
    attempt.events.say("ended", f"{ending.reason}: {ending.sentence}")
    try:
        return _leave(attempt, ending, attempt.patience(attempt.limits.grace) if patience.over else patience)
    except GpujobError as error:
        attempt.events.say("report", f"it could not be left: {error}")
        return False
    finally:
        attempt.end_threads()


def _deliver(attempt: Attempt, ending: Ending, patience: Patience) -> Ending:
    """Make durable what there is; gives the ending as it stands then. Raises Fenced when the job is another's."""
    beat = attempt.beat
    if beat is None or ending.reason is Reason.SUPERSEDED:
        return ending
    with suppress(StoreUnavailable):
        patience.insist("beat to", lambda moved: beat.once())
    if ending.reason is Reason.PREEMPTED and beat.intent is not Intent.RUN:
        # Whoever cancels a job also stops its machine; which of the two is heard first is chance.
        ending = replace(ending, reason=cancelled().reason, sentence=cancelled().sentence)
    lost = _drain(attempt, patience)
    if ending.reason is Reason.DONE:
        return _result(attempt, ending, patience)
    return replace(ending, sentence=f"{ending.sentence}; {lost}") if lost else ending


def _drain(attempt: Attempt, patience: Patience) -> str:
    """Send the last checkpoint; says what was lost, or nothing."""
    sync = attempt.sync
    if sync is None:
        return ""
    sync.forgive()
    seen = sync.moved_at
    while (more := sync.tick(settled=True)) and not patience.over:
        if isinstance(sync.failure, (StoreDenied, Damaged)):
            break
        if sync.moved_at != seen:
            seen = sync.moved_at
            patience.moved()
        patience.wait()
    attempt.note_sync()
    if sync.fenced is not None:
        raise sync.fenced
    why = sync.failure or "the store did not answer in time"
    return f"the last checkpoint (step {sync.newest}) could not be saved: {why}" if more else ""


def _result(attempt: Attempt, ending: Ending, patience: Patience) -> Ending:
    """Publish what the program made; a job is done only when that is durable."""
    held, step = attempt.held, max(attempt.progress.step, attempt.durable.step)
    assert held is not None
    try:
        patience.insist(
            "save the result to",
            lambda moved: publish.publish_result(held, attempt.paths.output, step, attempt.clock.now(), progress=moved),
        )
    except (StoreError, Damaged) as error:
        return replace(
            ending, reason=Reason.STORE_ERROR, sentence=f"{ending.sentence}, but its result could not be saved: {error}"
        )
    return ending


def _leave(attempt: Attempt, ending: Ending, patience: Patience) -> bool:
    """Write the report, then give the lease back."""
    held, superseded = attempt.held, ending.reason is Reason.SUPERSEDED
    if held is None and heads.read(attempt.store, attempt.launch.job_id).attempt == attempt.launch.attempt:
        return False  # another agent runs this very attempt, and its report is not ours to write
    if attempt.beat is not None and not superseded:
        # Worth a try, and nothing in it is worth the report.
        with suppress(Exception):
            attempt.streams.ship(all_of_it=True)
            attempt.beat.once()
    exit_report = _report(attempt, ending)
    with suppress(OSError):  # what lies in the store counts; this one is for whoever stands beside the machine
        files.write(attempt.paths.report, exit_report.encode())
    patience.insist("report to", lambda moved: attempt.store.put(attempt.keys.exit, exit_report.encode()))
    if held is not None and not superseded:
        attempt.end_threads()
        outcome = None if OUTCOMES[ending.reason].again else ending.reason
        with suppress(Fenced):
            patience.insist(
                "give the lease back to",
                lambda moved: lease.finish(held, exit_report.elapsed, exit_report.cost, outcome),
            )
    return True


def _report(attempt: Attempt, ending: Ending) -> ExitReport:
    code, elapsed, clean = ending.code, attempt.elapsed, attempt.redactor.text
    return ExitReport(
        attempt=attempt.launch.attempt,
        generation=attempt.held.generation if attempt.held is not None else 0,
        at=attempt.clock.now(),
        reason=ending.reason,
        sentence=clean(" ".join(ending.sentence.split()))[:_LONGEST_SENTENCE],
        exit_code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        step=max(attempt.progress.step, attempt.resumed_step),
        durable_step=attempt.durable.step,
        elapsed=elapsed,
        cost=attempt.bill.own_cost(elapsed),
        evidence=tuple(clean(line) for line in ending.evidence),
    )
