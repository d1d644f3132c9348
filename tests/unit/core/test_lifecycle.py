"""The state machine: its table row by row, and its promises under any sequence of events."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpujob.core import moves
from gpujob.core.job import ATTEMPTING, TERMINAL, Job, Policy, State
from gpujob.core.lifecycle import pending, step
from gpujob.core.reasons import OUTCOMES, Budget, Reason
from gpujob.core.records import ExitReport, Heartbeat, Phase
from gpujob.core.spec import JobSpec

POLICY = Policy(
    max_failures=2, max_preemptions=3, max_without_progress=3, max_seconds=None, max_cost=None, stop_patience=60.0
)


def beat(attempt: int = 1, step: int = 0, durable: int = 0, elapsed: float = 0.0, cost: float = 0.0) -> Heartbeat:
    return Heartbeat(
        attempt=attempt,
        generation=attempt,
        holder="x",
        at=0.0,
        phase=Phase.TRAINING,
        elapsed=elapsed,
        cost=cost,
        step=step,
        durable_step=durable,
    )


def report(
    attempt: int, reason: Reason, durable: int = 0, elapsed: float = 10.0, cost: float = 0.5, sentence: str = "It ended"
) -> ExitReport:
    return ExitReport(
        attempt=attempt,
        generation=attempt,
        at=0.0,
        reason=reason,
        sentence=sentence,
        step=durable,
        durable_step=durable,
        elapsed=elapsed,
        cost=cost,
    )


def after(job: Job, *events: moves.JobEvent, policy: Policy = POLICY) -> Job:
    for event in events:
        job, _ = step(job, event, policy)
    return job


def running(attempt: int = 1, **changes: object) -> Job:
    job = after(
        Job(id="j"), moves.Begin(0), moves.HostReady(1, "h"), moves.Shipped(2), moves.Beat(3, beat(attempt=1, step=1))
    )
    return job.model_copy(update={"attempt": attempt, **changes})


# Row by row


def test_a_quiet_night():
    job = Job(id="j")
    seen = [job.state]
    todo = [pending(job)]
    for event in (
        moves.Begin(0),
        moves.HostReady(1, "h"),
        moves.Shipped(2),
        moves.Beat(3, beat(step=5, durable=4, elapsed=2.0)),
        moves.Exited(9, report(1, Reason.DONE, durable=8)),
        moves.Released(10, "h"),
        moves.Settled(11),
    ):
        job, actions = step(job, event, POLICY)
        seen.append(job.state)
        todo.append(actions)
    s = State
    assert seen == [s.PLANNED, s.ACQUIRING, s.SHIPPING, s.STARTING, s.RUNNING, s.SUCCEEDED, s.SUCCEEDED, s.SUCCEEDED]
    assert todo == [
        (),
        (moves.Acquire(None),),
        (moves.Ship(),),
        (moves.Start(1), moves.Watch()),
        (moves.Watch(),),
        (moves.Settle(Reason.DONE), moves.Release("h", 1)),
        (moves.Settle(Reason.DONE),),
        (),
    ]
    assert not job.active
    assert job.spent_seconds == 10.0
    assert job.durable_step == 8


def test_unreachable_waits_and_a_heartbeat_clears_it():
    job = after(running(), moves.Unreachable(50), moves.Unreachable(60))
    assert (job.state, job.unreachable_since) == (State.UNREACHABLE, 50)
    assert pending(job) == (moves.Watch(),)
    job = after(job, moves.Beat(70, beat(step=2)))
    assert (job.state, job.unreachable_since) == (State.RUNNING, None)


def test_an_exit_on_a_living_machine_keeps_the_machine():
    job = after(running(), moves.Exited(10, report(1, Reason.CRASHED, durable=5)))
    assert (job.state, job.host, job.unreleased, job.failures) == (State.BACKOFF, "h", (), 1)
    assert pending(job) == (moves.Wait(11.0),)
    job = after(job, moves.Due(11.0))
    assert pending(job) == (moves.Acquire("h"),)
    job = after(job, moves.HostReady(12, "h"), moves.Shipped(13))
    assert (job.attempt, job.unreleased, job.durable_step_at_start) == (2, (), 5)


def test_a_lost_machine_is_released_and_another_one_asked_for():
    job = after(running(), moves.HostGone(10, 1, "the folder is gone"))
    assert (job.state, job.host, job.unreleased, job.preemptions) == (State.BACKOFF, None, ("h",), 1)
    assert pending(job) == (moves.Wait(11.0), moves.Release("h", 1))
    job = after(job, moves.Due(11.0), moves.HostReady(12, "h2"))
    assert (job.host, job.unreleased) == ("h2", ("h",))


def test_a_killed_agent_keeps_its_machine():
    job = after(running(), moves.HostGone(10, 1, "the agent was killed", machine_here=True))
    assert (job.state, job.host, job.unreleased, job.reason) == (State.BACKOFF, "h", (), Reason.HOST_GONE)


def test_another_machine_leaves_the_old_one_to_be_released():
    job = after(running(), moves.Exited(10, report(1, Reason.PREEMPTED)), moves.Due(11), moves.HostReady(12, "h2"))
    assert (job.host, job.unreleased) == ("h2", ("h",))


def test_releasing_the_old_machine_spares_the_attempt_on_the_new_one():
    job = after(running(), moves.HostGone(10, 1, "gone"), moves.Due(11), moves.HostReady(12, "h2"))
    assert moves.Release("h", 1) in pending(job)
    assert moves.Release("h", 1) in pending(after(job, moves.Shipped(13)))


def test_a_machine_taken_again_is_not_released():
    job = after(running(), moves.HostGone(10, 1, "gone"), moves.Due(11), moves.HostReady(12, "h"))
    assert (job.host, job.unreleased) == ("h", ())


@pytest.mark.parametrize("reason", [reason for reason in Reason if not OUTCOMES[reason].again])
def test_reasons_that_end_a_job(reason):
    job = after(running(), moves.Exited(10, report(1, reason)))
    expected = {
        Reason.DONE: State.SUCCEEDED,
        Reason.CANCELLED: State.CANCELLED,
        Reason.SUPERSEDED: State.FOLLOWING,
    }
    assert job.state is expected.get(reason, State.FAILED)
    assert job.unreleased == ("h",)


@pytest.mark.parametrize("reason", [reason for reason in Reason if OUTCOMES[reason].budget is Budget.FAILURES])
def test_the_failure_budget(reason):
    last = running(attempt=3, failures=2)
    ended = after(last, moves.Exited(10, report(3, reason)))
    assert (ended.state, ended.reason, ended.failures) == (State.FAILED, reason, 2)
    assert "2 allowed" in ended.sentence
    spared = after(running(attempt=3, failures=1), moves.Exited(10, report(3, reason)))
    assert (spared.state, spared.failures, spared.preemptions) == (State.BACKOFF, 2, 0)


def test_preemptions_do_not_spend_failures():
    job = after(running(failures=2), moves.Exited(10, report(1, Reason.PREEMPTED)))
    assert (job.state, job.failures, job.preemptions) == (State.BACKOFF, 2, 1)
    unlimited = POLICY.model_copy(update={"max_preemptions": None})
    job = after(running(preemptions=10_000), moves.Exited(10, report(1, Reason.PREEMPTED)), policy=unlimited)
    assert job.state is State.BACKOFF


def test_a_crash_loop_ends():
    job = Job(id="j", state=State.ACQUIRING)
    spot = POLICY.model_copy(update={"max_preemptions": None})
    for attempt in (1, 2, 3):
        job = after(
            job, moves.HostReady(0, "h"), moves.Shipped(0), moves.Beat(0, beat(attempt, durable=7)), policy=spot
        )
        job = after(job, moves.HostGone(0, attempt, "the agent was killed", True), moves.Due(1e9), policy=spot)
    assert job.state is State.ACQUIRING  # the first attempt made step 7 durable: only two in a row came to nothing
    job = after(
        job, moves.HostReady(0, "h"), moves.Shipped(0), moves.HostGone(0, 4, "the agent was killed", True), policy=spot
    )
    assert job.state is State.FAILED
    assert "3 attempts in a row made no newer durable checkpoint" in job.sentence
    assert "step 7" in job.sentence


def test_the_wait_doubles_without_progress_and_is_bounded():
    waits = []
    generous = POLICY.model_copy(update={"max_without_progress": 99, "max_preemptions": None, "backoff_longest": 9.0})
    job = Job(id="j", state=State.ACQUIRING)
    for attempt in range(1, 7):
        job = after(job, moves.HostReady(0, "h"), moves.Shipped(0), policy=generous)
        job = after(job, moves.HostGone(100, attempt, "gone"), policy=generous)
        waits.append((job.due or 0) - 100)
        job = after(job, moves.Due(1e9), policy=generous)
    assert waits == [1, 2, 4, 8, 9, 9]


def test_waiting_for_a_machine_costs_no_attempt():
    job = after(Job(id="j"), moves.Begin(0), moves.NoCapacity(1, "all are taken"))
    assert (job.state, job.attempt, job.preemptions, job.barren) == (State.BACKOFF, 0, 1, 0)
    assert "a machine is asked for again" in job.sentence
    assert after(job, moves.Due(0.5)).state is State.BACKOFF
    assert after(job, moves.Due(2.0)).state is State.ACQUIRING


def test_no_machine_for_too_long_ends_the_job_and_a_machine_in_between_starts_the_wait_anew():
    patient = POLICY.model_copy(update={"wait": 100.0, "max_preemptions": None})
    job = after(Job(id="j", state=State.ACQUIRING), moves.NoCapacity(1000, "taken"), policy=patient)
    again = after(job, moves.Due(1e9), moves.NoCapacity(1099, "taken"), policy=patient)
    assert again.state is State.BACKOFF
    ended = after(again, moves.Due(1e9), moves.NoCapacity(1100, "all are taken"), policy=patient)
    assert (ended.state, ended.reason) == (State.FAILED, Reason.NO_CAPACITY)
    assert "1 min 40 s" in ended.sentence
    assert "all are taken" in ended.sentence
    assert "recovery.wait" in ended.sentence
    found = after(again, moves.Due(1e9), moves.HostReady(1100, "h"), policy=patient)
    assert found.short_since is None


def test_the_spec_says_how_long_is_waited():
    recovery = {"wait": "2h", "lost_after": "3m"}
    policy = Policy.of(JobSpec.model_validate({"name": "x", "run": "true", "recovery": recovery}))
    assert (policy.wait, policy.lost_after) == (7200.0, 180.0)


@pytest.mark.parametrize(
    ("limits", "reason"), [({"max_seconds": 10.0}, Reason.LIMIT_TIME), ({"max_cost": 0.5}, Reason.LIMIT_COST)]
)
def test_no_attempt_starts_past_a_limit(limits, reason):
    job = after(running(), moves.Exited(10, report(1, Reason.PREEMPTED)), policy=POLICY.model_copy(update=limits))
    assert (job.state, job.reason) == (State.FAILED, reason)


def test_a_lost_attempt_is_booked_by_its_last_heartbeat():
    job = after(running(), moves.Beat(4, beat(elapsed=5.0, cost=0.2)), moves.HostGone(10, 1, "gone"))
    assert (job.spent_seconds, job.spent_cost, job.elapsed, job.cost) == (5.0, 0.2, 0.0, 0.0)


def test_news_of_an_old_attempt_changes_nothing():
    job = running(attempt=2)
    for event in (
        moves.Beat(9, beat(attempt=1, step=99)),
        moves.Exited(9, report(1, Reason.DONE)),
        moves.HostGone(9, 1, "gone"),
        moves.TakenOver(9, 2),
    ):
        assert after(job, event) == job


# Cancelling


def test_cancel_asks_waits_and_then_stops_by_force():
    job = after(running(), moves.CancelRequested(100))
    assert job.state is State.STOPPING
    assert pending(job) == (moves.Interrupt(), moves.Watch(), moves.Stop(160.0))
    assert after(job, moves.CancelRequested(150)) == job
    job = after(job, moves.Stopped(161))
    assert (job.state, job.unreleased) == (State.CANCELLED, ("h",))


def test_a_cancelled_job_counts_as_such_only_when_no_process_is_left():
    asked = after(running(), moves.CancelRequested(100))
    for event in (
        moves.Exited(101, report(1, Reason.CANCELLED)),
        moves.HostGone(101, 1, "the agent was killed", True),
        moves.LaunchFailed(101, Reason.CRASHED, "no python"),
    ):
        job = after(asked, event)
        assert job.state is State.STOPPING
        assert pending(job) == (moves.Stop(0.0),)
        assert after(job, moves.Stopped(102)).state is State.CANCELLED
    assert after(asked, moves.HostGone(101, 1, "the folder is gone")).state is State.CANCELLED


def test_a_job_that_finished_before_the_cancel_reached_it_has_succeeded():
    job = after(running(), moves.CancelRequested(100), moves.Exited(101, report(1, Reason.DONE)))
    assert job.state is State.SUCCEEDED


def test_a_machine_that_comes_after_a_cancel_is_released():
    job = after(Job(id="j"), moves.Begin(0), moves.CancelRequested(1), moves.HostReady(2, "h"))
    assert pending(job) == (moves.Stop(0.0), moves.Release("h", 0))
    job = after(job, moves.Stopped(3), moves.HostReady(4, "h2"))
    assert (job.state, job.unreleased) == (State.CANCELLED, ("h", "h2"))
    assert job.active


def test_a_submit_can_be_cancelled_or_break():
    assert after(Job(id="j"), moves.CancelRequested(1), moves.Begin(2)).state is State.CANCELLED
    job = after(Job(id="j"), moves.Abandoned(1, "the store was full"), moves.Begin(2))
    assert (job.state, pending(job)) == (State.CANCELLED, (moves.Settle(Reason.CANCELLED),))
    assert "not submitted completely: the store was full" in job.sentence
    assert "Nothing was spent" in job.sentence


# Another client


@pytest.mark.parametrize(
    "event", [moves.TakenOver(10, 2), moves.Exited(10, report(1, Reason.SUPERSEDED))], ids=["head", "report"]
)
def test_a_job_taken_over_is_followed_and_never_started_again(event):
    job = after(running(), event)
    assert (job.state, job.following, job.attempt, job.unreleased) == (State.FOLLOWING, 2, 1, ("h",))
    assert pending(job) == (moves.Watch(), moves.Release("h", 1))
    job = after(job, moves.TakenOver(11, 5), moves.Beat(12, beat(5)), moves.HostGone(13, 5, "gone"), moves.Due(1e9))
    assert (job.state, job.following, job.attempt) == (State.FOLLOWING, 5, 1)
    assert after(job, moves.Closed(14, Reason.DONE)).state is State.SUCCEEDED


def test_cancelling_a_followed_job_waits_for_the_other_client():
    job = after(running(), moves.TakenOver(10, 2), moves.CancelRequested(11), moves.Stopped(12))
    assert job.state is State.STOPPING
    assert pending(job) == (moves.Interrupt(), moves.Watch(), moves.Release("h", 1))
    assert after(job, moves.Exited(13, report(2, Reason.CANCELLED))).state is State.CANCELLED
    assert after(job, moves.Closed(13, Reason.CANCELLED)).state is State.CANCELLED


def test_a_job_taken_over_while_it_stops():
    job = after(running(), moves.CancelRequested(10), moves.TakenOver(11, 3))
    assert (job.state, job.following) == (State.STOPPING, 3)
    assert after(job, moves.Stopped(12)) == job


def test_an_outcome_in_the_head_is_the_outcome():
    job = after(Job(id="j"), moves.Begin(0), moves.Closed(1, Reason.DIVERGED, "The loss became NaN", 4))
    assert (job.state, job.reason, job.durable_step) == (State.FAILED, Reason.DIVERGED, 4)
    assert "The loss became NaN" in job.sentence


# Sentences and policy


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason is not Reason.SUPERSEDED])
def test_every_ending_says_what_happened_where_what_it_cost_and_what_next(reason):
    job = after(running(attempt=3, failures=2, preemptions=3), moves.Exited(9, report(3, reason, durable=7)))
    assert job.terminal
    assert "It ended" in job.sentence
    assert "step 7" in job.sentence
    assert "3 attempts took 10 s and cost 0.50" in job.sentence
    assert job.sentence.endswith(".")
    assert "{" not in job.sentence


def test_policy_of_a_spec():
    spec = JobSpec.model_validate(
        {
            "name": "a",
            "run": "true",
            "limits": {"duration": "2h", "cost": 3, "grace": "10s"},
            "recovery": {"max_failures": 1, "max_preemptions": 4, "max_without_progress": 5},
        }
    )
    policy = Policy.of(spec)
    assert (policy.max_failures, policy.max_preemptions, policy.max_without_progress) == (1, 4, 5)
    assert (policy.max_seconds, policy.max_cost, policy.stop_patience) == (7200.0, 3.0, 70.0)
    assert Policy.of(JobSpec.model_validate({"name": "a", "run": "true"})).max_preemptions is None


# Any sequence of events

times = st.floats(0, 1e6)
attempts = st.integers(0, 5)
reports = st.builds(
    report, attempt=attempts, reason=st.sampled_from(Reason), durable=st.integers(0, 20), elapsed=st.floats(0, 100)
)
beats = st.builds(beat, attempt=attempts, step=st.integers(0, 30), durable=st.integers(0, 20), elapsed=st.floats(0, 9))
hosts = st.sampled_from(["h1", "h2", "h3"])
events = st.one_of(
    st.builds(moves.Begin, times),
    st.builds(moves.Abandoned, times, st.just("why")),
    st.builds(moves.HostReady, times, hosts),
    st.builds(moves.NoCapacity, times, st.just("why")),
    st.builds(moves.Shipped, times),
    st.builds(moves.LaunchFailed, times, st.sampled_from(Reason), st.just("why")),
    st.builds(moves.Beat, times, beats),
    st.builds(moves.Unreachable, times),
    st.builds(moves.Exited, times, reports),
    st.builds(moves.HostGone, times, attempts, st.just("evidence"), st.booleans()),
    st.builds(moves.Due, times),
    st.builds(moves.CancelRequested, times),
    st.builds(moves.Stopped, times),
    st.builds(moves.TakenOver, times, attempts),
    st.builds(moves.Closed, times, st.sampled_from(Reason)),
    st.builds(moves.Released, times, hosts),
    st.builds(moves.Settled, times),
)
helpful = st.sampled_from(
    [moves.Begin(0), moves.HostReady(0, "h1"), moves.Shipped(0), moves.Due(1e9)]
)  # what brings a job on, so that long sequences reach every state
policies = st.builds(
    Policy,
    max_failures=st.integers(0, 3),
    max_preemptions=st.none() | st.integers(0, 3),
    max_without_progress=st.integers(1, 4),
    max_seconds=st.none() | st.floats(1, 50),
    max_cost=st.none() | st.floats(0, 2),
    stop_patience=st.just(60.0),
)
EVIDENCE = (moves.Exited, moves.HostGone, moves.LaunchFailed)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(events, helpful, helpful), max_size=40), policies)
def test_the_promises_hold_under_any_sequence_of_events(sequence, policy):
    job = Job(id="j")
    for event in sequence:
        before, (job, actions) = job, step(job, event, policy)
        assert actions == pending(job)
        assert job.attempt in (before.attempt, before.attempt + 1)
        assert 0 <= job.failures <= policy.max_failures
        assert 0 <= job.preemptions <= (policy.max_preemptions if policy.max_preemptions is not None else 10**9)
        assert 0 <= job.barren <= policy.max_without_progress
        assert job.spent_seconds >= before.spent_seconds
        assert job.durable_step >= before.durable_step
        assert job.running == (job.state in ATTEMPTING) or job.state is State.STOPPING
        assert set(before.unreleased) - set(job.unreleased) <= {getattr(event, "host", None)}
        assert job.host not in job.unreleased
        if before.terminal:
            frozen = {"unreleased", "settled"}
            assert job.model_dump(exclude=frozen) == before.model_dump(exclude=frozen)
        if before.running and not job.terminal and not job.running and before.state is not State.STOPPING:
            assert isinstance(event, (*EVIDENCE, moves.TakenOver))
        if before.state in (State.FOLLOWING, State.UNREACHABLE):
            assert job.attempt == before.attempt
        if before.state is State.FOLLOWING:
            assert job.state in {State.FOLLOWING, State.STOPPING} | TERMINAL
        if job.terminal:
            assert job.sentence
            assert job.ended_at is not None
            assert job.host is None
        if not job.active:
            assert actions == ()
        elif job.state is not State.PLANNED:
            assert actions, "a job ends, or there is something to do or to wait for"


@settings(max_examples=200, deadline=None)
@given(policies.filter(lambda policy: policy.max_preemptions is not None), st.data())
def test_a_job_that_never_gets_on_ends(policy, data):
    job = after(Job(id="j"), moves.Begin(0), policy=policy)
    for _ in range(policy.max_without_progress):
        job = after(job, moves.HostReady(0, "h"), moves.Shipped(0), policy=policy)
        ending = data.draw(
            st.sampled_from(
                [
                    moves.HostGone(1, job.attempt, "gone"),
                    moves.Exited(1, report(job.attempt, Reason.CRASHED)),
                    moves.Exited(1, report(job.attempt, Reason.PREEMPTED)),
                    moves.LaunchFailed(1, Reason.CRASHED, "no python"),
                ]
            )
        )
        job = after(job, ending, moves.Due(1e9), policy=policy)
    assert job.state is State.FAILED
