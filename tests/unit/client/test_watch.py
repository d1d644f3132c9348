from __future__ import annotations

import pytest

from gpujob.checkpoints import head as heads
from gpujob.checkpoints import lease
from gpujob.client.watch import Watch
from gpujob.core.errors import StoreUnavailable
from gpujob.core.job import State
from gpujob.core.layout import JobKeys
from gpujob.core.moves import Beat, Closed, Exited, HostGone, TakenOver, Unreachable
from gpujob.core.reasons import Reason
from gpujob.hosts.protocol import Presence, Rental
from gpujob.store.memory import MemoryStore
from support.client import JOB_ID, Bench, make_beat, make_entry, make_plan, make_report, make_settings

KEYS = JobKeys(JOB_ID)
MACHINE = Rental(ref="machine-1", root="/nowhere")


@pytest.fixture
def bench(tmp_path):
    bench = Bench(make_settings(tmp_path), MemoryStore(), make_plan())
    heads.create(bench.store, JOB_ID)
    lease.acquire(bench.store, JOB_ID, 1, "holder-1", 0.0)
    bench.runtime.living = {1}
    return bench


def entry(**changes):
    base = {"state": State.RUNNING, "attempt": 1, "running": True, "host": MACHINE.ref}
    return make_entry(**{**base, **changes}).model_copy(update={"rentals": {MACHINE.ref: MACHINE}})


def put_beat(bench, **changes):
    beat = make_beat(**changes)
    bench.store.put(KEYS.attempt(beat.attempt).beat, beat.encode())
    return beat


def put_report(bench, **changes):
    report = make_report(**changes)
    bench.store.put(KEYS.attempt(report.attempt).exit, report.encode())
    return report


class Down(MemoryStore):
    def get(self, key, **_):
        raise StoreUnavailable("read", key, "no answer")

    def head(self, key):
        raise StoreUnavailable("read", key, "no answer")


def test_a_new_heartbeat_is_news_and_an_old_one_is_not(bench):
    assert Watch(bench.tools()).look(entry()) == []
    beat = put_beat(bench, step=3)
    assert Watch(bench.tools()).look(entry()) == [Beat(1000.0, beat)]
    assert Watch(bench.tools()).look(entry().model_copy(update={"beat": beat})) == []


def test_the_store_is_read_as_often_as_the_agent_beats(bench):
    watch = Watch(bench.tools())
    watch.look(entry())
    put_beat(bench, step=3)
    assert watch.look(entry()) == []
    bench.clock.now += bench.settings.beat_seconds
    assert len(watch.look(entry())) == 1


def test_a_clock_set_back_does_not_stop_the_reading(bench):
    watch = Watch(bench.tools())
    watch.look(entry())
    put_beat(bench, step=3)
    bench.clock.now -= 86400
    assert len(watch.look(entry())) == 1


def test_a_report_counts_when_the_agent_has_ended(bench):
    report = put_report(bench, at=1000.0)
    watch = Watch(bench.tools())
    assert watch.look(entry()) == [], "it still runs, and is just finishing"
    bench.runtime.living.clear()
    assert watch.look(entry()) == [Exited(1000.0, report)]


def test_an_agent_that_reported_and_does_not_end_is_not_waited_for_for_ever(bench):
    report = put_report(bench, at=0.0)
    assert Watch(bench.tools()).look(entry()) == [Exited(1000.0, report)]


def test_the_last_heartbeat_of_a_dead_agent_is_booked_first(bench):
    beat = put_beat(bench, step=9, elapsed=50.0)
    bench.runtime.living.clear()
    news = Watch(bench.tools()).look(entry())
    assert news[0] == Beat(1000.0, beat)
    assert isinstance(news[1], HostGone)


def test_a_killed_agent_and_a_gone_machine_are_told_apart(bench):
    bench.runtime.living.clear()
    bench.runtime.said = "no such bucket"
    (killed,) = Watch(bench.tools()).look(entry())
    assert isinstance(killed, HostGone)
    assert killed.machine_here
    assert "left no report" in killed.evidence
    assert "no such bucket" in killed.evidence
    bench.host.presence = Presence.GONE
    (gone,) = Watch(bench.tools()).look(entry())
    assert isinstance(gone, HostGone)
    assert not gone.machine_here
    assert "machine-1 is gone" in gone.evidence


def test_a_deleted_machine_whose_agent_still_runs_is_gone(bench):
    bench.host.presence = Presence.GONE
    assert isinstance(Watch(bench.tools()).look(entry())[0], HostGone)


def test_a_dead_agent_is_no_evidence_while_the_store_is_silent(bench):
    bench.runtime.living.clear()
    bench.store = Down()
    with pytest.raises(StoreUnavailable):
        Watch(bench.tools()).look(entry())


@pytest.mark.parametrize("alive", [True, False])
def test_another_attempt_in_the_head_is_seen(bench, alive):
    lease.acquire(bench.store, JOB_ID, 4, "other", 0.0)
    if not alive:
        bench.runtime.living.clear()
    assert TakenOver(1000.0, 4) in Watch(bench.tools()).look(entry())


def test_an_outcome_in_the_head_ends_a_dead_attempt(bench):
    lease.close(bench.store, JOB_ID, Reason.CANCELLED)
    bench.runtime.living.clear()
    assert Watch(bench.tools()).look(entry()) == [Closed(1000.0, Reason.CANCELLED)]


def test_an_unreachable_machine_is_asked_for_in_the_store(bench):
    bench.host.presence = Presence.UNREACHABLE
    beat = put_beat(bench, step=3)
    assert Watch(bench.tools()).look(entry()) == [Beat(1000.0, beat)]
    seen = entry().model_copy(update={"beat": beat})
    assert Watch(bench.tools()).look(seen) == [Unreachable(1000.0)]
    report = put_report(bench)
    assert Watch(bench.tools()).look(seen) == [Exited(1000.0, report)]


def test_silence_is_proof_only_after_long_and_while_the_store_answers(bench):
    bench.host.presence = Presence.UNREACHABLE
    silent = entry(state=State.UNREACHABLE, unreachable_since=1000.0)
    watch, looks = Watch(bench.tools()), int(silent.policy.lost_after / 30)
    for _ in range(looks):
        assert watch.look(silent) == [Unreachable(bench.clock.now)]
        bench.clock.now += 30
    up, bench.store = bench.store, Down()
    watch.tools = bench.tools()
    assert watch.look(silent) == [Unreachable(bench.clock.now)]
    bench.clock.now += 30
    bench.store = up
    watch.tools = bench.tools()
    (gone,) = watch.look(silent)
    assert isinstance(gone, HostGone)


def test_a_job_of_another_client_is_followed(bench):
    lease.acquire(bench.store, JOB_ID, 2, "other", 0.0)
    beat = put_beat(bench, attempt=2, step=7)
    followed = entry(state=State.FOLLOWING, running=False, following=2, host=None)
    assert Watch(bench.tools()).look(followed) == [TakenOver(1000.0, 2), Beat(1000.0, beat)]
    report = put_report(bench, attempt=2, reason=Reason.CANCELLED)
    lease.close(bench.store, JOB_ID, Reason.CANCELLED)
    assert Watch(bench.tools()).look(followed) == [Closed(1000.0, Reason.CANCELLED, report.sentence)]


def test_unreadable_objects_are_as_good_as_none(bench):
    bench.store.put(KEYS.attempt(1).beat, b"{")
    bench.store.put(KEYS.attempt(1).exit, b"[]")
    bench.runtime.living.clear()
    assert isinstance(Watch(bench.tools()).look(entry())[0], HostGone)
