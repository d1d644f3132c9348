"""One job driven through its life with peers that do as they are told; the clock moves only when it is waited."""

from __future__ import annotations

from functools import partial

import pytest

from gpujob import bundle
from gpujob.checkpoints import head as heads
from gpujob.checkpoints import lease
from gpujob.client import secrets
from gpujob.client.drive import Drive
from gpujob.client.journal import Journal
from gpujob.client.secrets import JobSecrets
from gpujob.core import moves
from gpujob.core.errors import NotFound, StoreUnavailable
from gpujob.core.job import State
from gpujob.core.layout import JobKeys
from gpujob.core.reasons import Reason
from gpujob.core.records import Intent
from gpujob.store.memory import MemoryStore
from support.client import JOB_ID, Bench, make_beat, make_entry, make_plan, make_report, make_settings

KEYS = JobKeys(JOB_ID)


class Night:
    """A bench with a driver whose pauses play the world: each pause runs the next line of the script."""

    def __init__(self, folder, **spec) -> None:
        self.bench = Bench(make_settings(folder), MemoryStore(), make_plan(**spec))
        self.journal = Journal(self.bench.settings.home)
        self.script: list = []
        self.journal.create(make_entry(self.bench.plan))
        bundle.ship(self.bench.store, JOB_ID, bundle.pack({}))
        heads.create(self.bench.store, JOB_ID)
        self.journal.apply(JOB_ID, moves.Begin(self.bench.clock.now))

    @property
    def job(self):
        return self.journal.read(JOB_ID).job

    @property
    def head(self):
        return heads.read(self.bench.store, JOB_ID)

    def drive(self, *script) -> None:
        """Drive until the job is over, or the script is."""
        self.go(iter(script))

    def go(self, steps) -> None:
        """Drive with what is left of a script."""
        patience: list[float] = []

        def pause(seconds: float) -> bool:
            self.bench.clock.pause(seconds)
            if self.job.due and self.job.state is State.BACKOFF:
                self.bench.clock.now = max(self.bench.clock.now, self.job.due)
                return False
            next(steps, lambda: None)()
            patience.append(seconds)
            return len(patience) > 2000

        bench = self.bench
        Drive(JOB_ID, self.journal, bench.settings, bench.clock, pause, bench.tools).run()

    # What the world does

    def lease(self) -> None:
        lease.acquire(self.bench.store, JOB_ID, self.job.attempt, f"holder-{self.job.attempt}", self.bench.clock.now)

    def beat(self, **changes):
        beat = make_beat(self.job.attempt, at=self.bench.clock.now, **changes)
        self.bench.store.put(KEYS.attempt(beat.attempt).beat, beat.encode())

    def exit(self, reason: Reason, **changes):
        report = make_report(self.job.attempt, reason, at=self.bench.clock.now, **changes)
        self.bench.store.put(KEYS.attempt(report.attempt).exit, report.encode())
        self.bench.runtime.living.clear()

    def states(self):
        return [event.kind for event in self.journal.read(JOB_ID).history]


@pytest.fixture
def night(tmp_path):
    return Night(tmp_path)


def test_a_quiet_night(night, tmp_path):
    secrets.save(night.bench.settings.home, JOB_ID, JobSecrets())
    night.drive(night.lease, lambda: night.beat(step=3, durable_step=2, elapsed=1), lambda: night.exit(Reason.DONE))
    assert night.states() == ["ACQUIRING", "SHIPPING", "STARTING", "RUNNING", "SUCCEEDED"]
    assert not night.job.active
    assert night.head.outcome is Reason.DONE
    assert night.bench.host.released == [("machine-1", 1)]
    assert not night.bench.settings.home.secrets(JOB_ID).exists()
    (launch,) = night.bench.runtime.launches
    assert (launch.job_id, launch.attempt, launch.root, launch.price_per_hour) == (JOB_ID, 1, "/nowhere", 2.0)


def test_secrets_and_credentials_reach_the_agent(tmp_path):
    night = Night(tmp_path, secrets=["HF_TOKEN"])
    night.bench.secrets = JobSecrets(values={"HF_TOKEN": "hf_secret"}, store_env={"AWS_X": "aws_secret"})
    night.drive()
    (launch,) = night.bench.runtime.launches
    assert (launch.secrets, launch.store_env) == ({"HF_TOKEN": "hf_secret"}, {"AWS_X": "aws_secret"})
    text = night.bench.settings.home.job(JOB_ID).read_text()
    assert "hf_secret" not in text
    assert "aws_secret" not in text


def test_lost_secrets_end_the_job_with_words(tmp_path):
    night = Night(tmp_path, secrets=["HF_TOKEN"])
    night.drive()
    assert (night.job.state, night.job.reason) == (State.FAILED, Reason.BAD_SPEC)
    assert "HF_TOKEN" in night.job.sentence


def test_a_crash_is_tried_again_on_the_same_machine(night):
    night.drive(lambda: night.exit(Reason.CRASHED, durable_step=4), lambda: night.exit(Reason.DONE))
    assert night.job.state is State.SUCCEEDED
    assert [launch.attempt for launch in night.bench.runtime.launches] == [1, 2]
    assert len(night.bench.host.rented) == 1
    assert night.bench.host.released == [("machine-1", 2)]


def test_a_start_that_fails_for_a_moment_is_tried_again_and_spends_no_attempt(night):
    start, troubles = night.bench.runtime.start, [StoreUnavailable("read", "bundle.json", "no answer")] * 2

    def fail_twice(launch):
        if troubles:
            raise troubles.pop()
        start(launch)

    night.bench.runtime.start = fail_twice
    night.drive(*[lambda: None] * 10, lambda: night.exit(Reason.DONE))
    assert night.job.state is State.SUCCEEDED
    assert night.job.attempt == 1


def test_a_lost_machine_is_replaced_and_released(night):
    night.drive(lambda: night.bench.host.gone.add("machine-1"), lambda: night.exit(Reason.DONE))
    assert night.job.state is State.SUCCEEDED
    assert [rental.ref for rental in night.bench.host.rented[:2]] == ["machine-1", "machine-2"]
    assert ("machine-1", 1) in night.bench.host.released
    assert night.job.unreleased == ()


def test_no_machine_is_waited_for(night):
    night.bench.host.refuses = "all are taken"
    calls = []

    def free():
        night.bench.host.refuses = ""

    bench = night.bench
    original = bench.host.acquire

    def acquire(job_id):
        calls.append(job_id)
        if len(calls) == 3:
            free()
        return original(job_id)

    bench.host.acquire = acquire
    night.drive(lambda: night.exit(Reason.DONE))
    assert night.job.state is State.SUCCEEDED
    assert (night.job.preemptions, night.job.attempt) == (2, 1)


def test_an_agent_that_cannot_start_is_a_failure_with_words(night):
    night.bench.runtime.refuses = "No module named pydantic"
    night.drive()
    assert (night.job.state, night.job.reason) == (State.FAILED, Reason.CRASHED)
    assert "No module named pydantic" in night.job.sentence


def test_a_bundle_that_is_not_there_is_a_store_error(night):
    night.bench.store.delete(KEYS.bundle)
    night.drive()
    assert (night.job.state, night.job.reason) == (State.FAILED, Reason.STORE_ERROR)


def test_cancel_is_asked_for_and_seen_to(night):
    def ask():
        night.journal.apply(JOB_ID, moves.CancelRequested(night.bench.clock.now))

    def obey():
        assert night.head.intent is Intent.CANCEL
        night.exit(Reason.CANCELLED)

    night.drive(ask, obey)
    assert (night.job.state, night.head.outcome) == (State.CANCELLED, Reason.CANCELLED)
    assert night.bench.runtime.stops == [(1, 0.0)]


def test_an_agent_that_does_not_obey_is_stopped_by_force(night):
    def ask():
        night.journal.apply(JOB_ID, moves.CancelRequested(night.bench.clock.now))

    def wait():
        night.bench.clock.now += night.journal.read(JOB_ID).policy.stop_patience
        assert night.job.state is State.STOPPING

    night.drive(ask, wait)
    assert night.job.state is State.CANCELLED
    assert night.bench.runtime.stops == [(1, 60.0)]


def test_a_machine_that_is_not_released_is_tried_again_and_named(night):
    night.bench.host.stuck = "process 7 does not end"

    def end():
        assert night.job.unreleased == ("machine-1",)
        assert "process 7 does not end" in night.journal.read(JOB_ID).trouble
        assert night.head.outcome is Reason.DONE, "the outcome stands although the machine is stuck"
        night.bench.host.stuck = ""

    night.drive(lambda: night.exit(Reason.DONE), end)
    assert night.bench.host.released == [("machine-1", 1)]
    assert (night.job.unreleased, night.journal.read(JOB_ID).trouble) == ((), "")


def test_a_silent_store_kills_nothing_and_is_said_once(night):
    store = night.bench.store

    class Down(MemoryStore):
        def get(self, key, **_):
            raise StoreUnavailable("read", key, "no answer")

    def out():
        night.bench.store = Down()

    def back():
        assert night.job.state is State.RUNNING
        assert "no answer" in night.journal.read(JOB_ID).trouble
        night.bench.store = store
        night.exit(Reason.DONE)

    # The driver keeps its tools while they work; the world swaps the store below them.
    tools = night.bench.tools
    night.bench.tools = lambda *_: Swapped(night, tools())  # type: ignore[method-assign]
    night.drive(night.beat, out, *[lambda: None] * 900, back)
    assert night.job.state is State.SUCCEEDED
    assert [event.kind for event in night.journal.read(JOB_ID).history].count("trouble") == 1
    assert [launch.attempt for launch in night.bench.runtime.launches] == [1]


class Swapped:
    """Tools whose store is whatever the night's is now."""

    def __init__(self, night, tools) -> None:
        self._night, self._tools = night, tools

    def __getattr__(self, name):
        return self._night.bench.store if name == "store" else getattr(self._tools, name)


def test_a_job_taken_over_is_not_started_again(night):
    def other():
        lease.acquire(night.bench.store, JOB_ID, 5, "other", 0.0)

    def check():
        assert (night.job.state, night.job.following) == (State.FOLLOWING, 5)
        lease.close(night.bench.store, JOB_ID, Reason.DONE)

    night.drive(other, check)
    assert night.job.state is State.SUCCEEDED
    assert [launch.attempt for launch in night.bench.runtime.launches] == [1]
    assert night.bench.host.released == [("machine-1", 1)]


def test_an_attempt_of_another_client_is_not_closed(night):
    night.bench.runtime.refuses = "broken"
    night.bench.plan = make_plan(recovery={"max_failures": 0})
    night.journal.update(JOB_ID, lambda entry: entry.model_copy(update={"plan": night.bench.plan}))
    original = night.bench.host.release

    def release(*words):
        original(*words)
        lease.acquire(night.bench.store, JOB_ID, 2, "other", 0.0)

    original_start = night.bench.runtime.start

    def start(launch):
        lease.acquire(night.bench.store, JOB_ID, 2, "other", 0.0)
        original_start(launch)

    night.bench.runtime.start = start
    night.drive()
    assert night.job.state is State.FAILED
    assert night.head.outcome is None


def test_what_others_wrote_into_the_head_is_seen_before_an_attempt_starts(tmp_path):
    cancelled = Night(tmp_path / "a")
    heads.update(cancelled.bench.store, JOB_ID, lambda head: head.model_copy(update={"intent": Intent.CANCEL}))
    cancelled.drive()
    assert (cancelled.job.state, cancelled.bench.runtime.launches) == (State.CANCELLED, [])
    over = Night(tmp_path / "b")
    lease.close(over.bench.store, JOB_ID, Reason.LIMIT_COST)
    over.drive()
    assert (over.job.state, over.job.reason, over.bench.runtime.launches) == (State.FAILED, Reason.LIMIT_COST, [])


def test_an_abandoned_submit_closes_what_there_is(tmp_path):
    bench = Bench(make_settings(tmp_path), MemoryStore(), make_plan())
    journal = Journal(bench.settings.home)
    journal.create(make_entry(bench.plan))
    journal.apply(JOB_ID, moves.Abandoned(5.0, "killed"))
    Drive(JOB_ID, journal, bench.settings, bench.clock, bench.clock.pause, bench.tools).run()
    assert not journal.read(JOB_ID).job.active
    with pytest.raises(NotFound):
        heads.read(bench.store, JOB_ID)


def test_a_driver_killed_anywhere_is_replaced_by_one_that_goes_on(tmp_path):
    """Kill the driver at its n-th write of the journal, for every n: the night always ends well, with one attempt."""
    for kill_at in range(1, 20):
        night = Night(tmp_path / str(kill_at))
        writes = 0

        class Killed(BaseException):
            pass

        original = Journal._write

        def write(self, job_id, entry, kill_at=kill_at, original=original, killed=Killed):
            nonlocal writes
            writes += 1
            if writes == kill_at:
                raise killed
            original(self, job_id, entry)

        world = iter([night.lease, partial(night.beat, step=3, durable_step=2), partial(night.exit, Reason.DONE)])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Journal, "_write", write)
            try:
                night.go(world)
            except Killed:
                night.go(world)
        assert night.job.state is State.SUCCEEDED, kill_at
        assert [launch.attempt for launch in night.bench.runtime.launches] == [1], kill_at
        assert night.head.outcome is Reason.DONE
        if writes < kill_at:
            return
    raise AssertionError("the night never ended without a kill")
