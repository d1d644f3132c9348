"""Ten hours of a bad line, with the real driver and state machine: a healthy job is left alone, a lost one is not."""

from __future__ import annotations

import dataclasses
import itertools
from random import Random

import pytest

from gpujob import bundle
from gpujob.checkpoints import head as heads
from gpujob.checkpoints import lease
from gpujob.client.drive import Drive
from gpujob.client.journal import Journal
from gpujob.core import moves
from gpujob.core.errors import StoreUnavailable
from gpujob.core.job import State
from gpujob.core.layout import JobKeys
from gpujob.core.reasons import Reason
from gpujob.hosts.protocol import Presence
from gpujob.store.memory import MemoryStore
from support.client import JOB_ID, Bench, make_beat, make_entry, make_plan, make_report, make_settings

KEYS = JobKeys(JOB_ID)
HOUR = 3600.0


class BadLine:
    """The client's way to a store: away whenever `away` says so. The agent has a way of its own."""

    def __init__(self, store: MemoryStore) -> None:
        self.store, self.away = store, False

    def __getattr__(self, name: str):
        if self.away and name in {"get", "put", "head", "list", "delete"}:
            raise StoreUnavailable("reach", "the store", "no route to host")
        return getattr(self.store, name)


class LongNight:
    """One job of which the world's clock `world` is the true one; the client's may jump."""

    def __init__(self, folder, seed: int) -> None:
        self.random, self.store = Random(seed), MemoryStore()
        self.line = BadLine(self.store)
        self.bench = Bench(dataclasses.replace(make_settings(folder, poll=5.0)), self.line, make_plan())
        self.journal = Journal(self.bench.settings.home)
        self.world = self.next_beat = 0.0
        self.states: set[State] = set()
        self.journal.create(make_entry(self.bench.plan))
        bundle.ship(self.store, JOB_ID, bundle.pack({}))
        heads.create(self.store, JOB_ID)
        self.journal.apply(JOB_ID, moves.Begin(self.bench.clock.now))

    @property
    def job(self):
        return self.journal.read(JOB_ID).job

    def drive(self, live) -> None:
        bench = self.bench

        def pause(seconds: float) -> bool:
            self.pass_time(seconds)
            self.states.add(self.job.state)
            return bool(live())

        Drive(JOB_ID, self.journal, bench.settings, bench.clock, pause, bench.tools).run()

    def pass_time(self, seconds: float, *, seen: float | None = None) -> None:
        """Let the world go on, and the client's clock show `seen` seconds more."""
        self.world += seconds
        self.bench.clock.now += seconds if seen is None else seen

    def agent(self) -> None:
        """Do what a healthy agent does: take the lease, beat every so often."""
        if 1 in self.bench.runtime.living and self.world >= self.next_beat:
            if heads.read(self.store, JOB_ID).attempt == 0:
                lease.acquire(self.store, JOB_ID, 1, "holder-1", self.world)
            beat = make_beat(1, at=self.world, step=int(self.world))
            self.store.put(KEYS.attempt(1).beat, beat.encode())
            self.next_beat = self.world + self.random.uniform(5.0, 600.0)

    def weather(self) -> None:
        """Let the machine, the store and the client's clock come and go."""
        draw = self.random.random
        self.bench.host.presence = Presence.UNREACHABLE if draw() < 0.9 else Presence.HERE
        self.line.away = draw() < 0.4
        if draw() < 0.01:
            self.pass_time(HOUR)  # asleep
        if draw() < 0.01:
            self.pass_time(0.0, seen=self.random.choice((HOUR, -HOUR)))  # the clock is set


@pytest.mark.parametrize("seed", range(6))
def test_a_healthy_job_behind_a_bad_line_is_never_stopped_and_never_run_twice(tmp_path, seed):
    night = LongNight(tmp_path, seed)

    def live() -> bool:
        night.agent()
        night.weather()
        assert [each.attempt for each in night.bench.runtime.launches] in ([], [1])
        assert not night.bench.runtime.stops
        assert not night.bench.host.released
        return night.world > 10 * HOUR

    night.drive(live)
    assert {State.RUNNING, State.UNREACHABLE} <= night.states
    assert night.job.attempt == 1
    assert night.job.step > 8 * HOUR

    night.line.away, night.bench.host.presence = False, Presence.HERE
    report = make_report(1, Reason.DONE, at=night.world)
    night.store.put(KEYS.attempt(1).exit, report.encode())
    night.bench.runtime.living.clear()
    ends = itertools.count()
    night.drive(lambda: next(ends) > 100)
    assert night.job.state is State.SUCCEEDED


def test_a_clock_that_jumps_is_no_proof_of_a_lost_machine(tmp_path):
    night, jumps = LongNight(tmp_path, 0), itertools.count()

    def live() -> bool:
        night.agent()
        night.next_beat = float("inf")
        if night.job.state is State.RUNNING:
            night.bench.host.presence = Presence.UNREACHABLE
        if night.job.state is State.UNREACHABLE:
            night.pass_time(0.0, seen=HOUR)
            return next(jumps) == 5
        return False

    night.drive(live)
    assert (night.job.state, night.job.attempt) == (State.UNREACHABLE, 1)


@pytest.mark.parametrize("stuck", [False, True], ids=["alone", "beside a release that fails"])
def test_a_silent_machine_is_given_up_when_the_store_has_answered_all_the_while(tmp_path, stuck):
    night, since = LongNight(tmp_path, 0), []

    def live() -> bool:
        night.agent()
        if night.job.state is State.RUNNING and night.job.attempt == 1:
            night.next_beat = float("inf")
            night.bench.host.presence = Presence.UNREACHABLE
            if stuck:
                night.bench.host.stuck = "no answer"
                night.journal.update(JOB_ID, with_unreleased)
        if night.job.state is State.UNREACHABLE and not since:
            since.append(night.world)
        assert night.world < 2 * HOUR
        return night.job.attempt == 2

    def with_unreleased(entry):
        old = night.bench.host.rented[0].model_copy(update={"ref": "an earlier one"})
        job = entry.job.model_copy(update={"unreleased": ("an earlier one",)})
        return entry.model_copy(update={"job": job, "rentals": {**entry.rentals, old.ref: old}})

    night.drive(live)
    policy = night.journal.read(JOB_ID).policy
    assert policy.lost_after <= night.world - since[0] < policy.lost_after + 120


def test_a_driver_whose_disk_is_full_goes_on_when_there_is_room_again(tmp_path, monkeypatch):
    night, refused = LongNight(tmp_path, 0), []
    write = Journal._write

    def full(self, job_id, entry):
        if 2 * HOUR > night.world > HOUR:
            refused.append(night.world)
            raise OSError(28, "No space left on device")
        write(self, job_id, entry)

    monkeypatch.setattr(Journal, "_write", full)

    def live() -> bool:
        night.agent()
        return night.world > 3 * HOUR

    while night.world < 3 * HOUR:
        try:
            night.drive(live)
        except OSError:  # the supervisor starts such a driver again
            night.pass_time(5.0)
            night.agent()
    assert refused
    assert (night.job.state, night.job.attempt) == (State.RUNNING, 1)
    assert night.job.step > 2.5 * HOUR
