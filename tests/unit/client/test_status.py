from __future__ import annotations

import json

import pytest

from gpujob.checkpoints import head as heads
from gpujob.checkpoints import lease
from gpujob.client.status import status
from gpujob.core import moves
from gpujob.core.errors import StoreUnavailable
from gpujob.core.job import State
from gpujob.core.layout import JobKeys
from gpujob.core.reasons import Reason
from gpujob.core.records import CheckpointRef, Phase
from gpujob.store.memory import MemoryStore
from support.client import JOB_ID, make_beat, make_entry, make_report

KEYS = JobKeys(JOB_ID)


def running(**changes):
    return make_entry(state=State.RUNNING, attempt=1, running=True, host="machine-1", **changes)


@pytest.fixture
def store():
    store = MemoryStore()
    heads.create(store, JOB_ID)
    lease.acquire(store, JOB_ID, 1, "holder-1", 0.0)
    return store


def put_beat(store, **changes):
    beat = make_beat(**changes)
    store.put(KEYS.attempt(beat.attempt).beat, beat.encode())


def test_a_running_job_shows_what_is_safe_and_what_is_at_risk(store):
    put_beat(
        store, at=100.0, elapsed=100.0, cost=2.0, step=40, total_steps=120, loss=1.5, durable_step=30, durable_at=70.0
    )
    seen = status(running(), store, now=110.0)
    assert (seen.state, seen.phase, seen.step, seen.total_steps, seen.loss) == (
        State.RUNNING,
        Phase.TRAINING,
        40,
        120,
        1.5,
    )
    assert (seen.at_risk.seconds, seen.at_risk.cost) == (40.0, 0.8)
    assert (seen.spent.seconds, seen.spent.cost) == (100.0, 2.0)
    assert seen.host == "machine-1"
    assert not seen.stale


def test_without_a_durable_checkpoint_all_of_the_attempt_is_at_risk(store):
    put_beat(store, at=100.0, elapsed=60.0, cost=0.0)
    assert status(running(), store, now=100.0).at_risk.seconds == 60.0


def test_what_is_durable_comes_from_the_head(store):
    ref = CheckpointRef(step=50, generation=1, digest="d", bytes=1, committed_at=0.0)
    heads.update(store, JOB_ID, lambda head: head.model_copy(update={"checkpoints": (ref,)}))
    assert status(running(durable_step=30), store, 0.0).durable_step == 50


def test_nothing_is_ever_counted_twice(store):
    """Through two attempts, look after every single thing that happens: what was spent only grows, and ends right."""
    entry = running()
    spent = []

    def look():
        spent.append(status(entry, store, 0.0).spent.seconds)

    look()
    put_beat(store, at=10.0, elapsed=10.0)
    look()
    beat = make_beat(at=10.0, elapsed=10.0)
    entry = entry.after(moves.Beat(10.0, beat))
    look()
    held = lease.Held(store, JOB_ID, 1, 1, "holder-1")
    store.put(KEYS.attempt(1).exit, make_report(elapsed=12.0).encode())
    look()
    lease.finish(held, 12.0, 0.0, None)
    look()
    entry = entry.after(moves.Exited(13.0, make_report(reason=Reason.CRASHED, elapsed=12.0)))
    look()
    entry = entry.after(moves.Due(99.0)).after(moves.HostReady(99.0, "machine-1")).after(moves.Shipped(99.0))
    look()
    lease.acquire(store, JOB_ID, 2, "holder-2", 0.0)
    look()
    put_beat(store, attempt=2, at=20.0, elapsed=5.0)
    look()
    entry = entry.after(moves.HostGone(30.0, 2, "killed", True))
    look()
    lease.close(store, JOB_ID, Reason.HOST_GONE)
    look()
    assert spent == sorted(spent)
    assert spent == [0, 10, 10, 10, 12, 12, 12, 12, 17, 17, 17]


def test_a_silent_store_leaves_what_the_journal_knows():
    class Down(MemoryStore):
        def head(self, key):
            raise StoreUnavailable("read", key, "no answer")

        get = head

    beat = make_beat(at=5.0, elapsed=5.0, step=4, total_steps=9)
    entry = running().after(moves.Beat(5.0, beat))
    for store, stale in ((None, False), (Down(), True)):
        seen = status(entry, store, now=5.0)
        assert (seen.step, seen.total_steps, seen.spent.seconds, seen.stale) == (4, 9, 5.0, stale)


def test_a_job_that_is_over_says_so_and_what_may_still_be_billing(store):
    entry = running().after(moves.Exited(50.0, make_report(durable_step=9, elapsed=50.0, sentence="All done")))
    seen = status(entry, store, now=60.0)
    assert (seen.state, seen.ended_at, seen.phase, seen.at_risk.seconds) == (State.SUCCEEDED, 50.0, None, 0.0)
    assert "All done." in seen.sentence
    assert "may still be billing: machine-1" in seen.sentence
    assert "billing" not in status(entry.after(moves.Released(61.0, "machine-1")), store, 60.0).sentence


def test_a_followed_job_shows_the_other_attempt(store):
    lease.acquire(store, JOB_ID, 3, "other", 0.0)
    put_beat(store, attempt=3, at=5.0, elapsed=5.0, step=77)
    seen = status(running().after(moves.TakenOver(1.0, 3)), store, now=5.0)
    assert (seen.state, seen.attempt, seen.step) == (State.FOLLOWING, 3, 77)
    assert "another client" in seen.sentence


@pytest.mark.parametrize("state", list(State))
def test_every_state_has_a_sentence_and_becomes_json(state):
    entry = make_entry(state=state, attempt=2, following=3, sentence="It ended." if state.value.endswith("ED") else "")
    seen = status(entry if state is not State.BACKOFF else running(), None, 0.0)
    assert seen.sentence
    assert json.loads(seen.model_dump_json())["id"] == JOB_ID
