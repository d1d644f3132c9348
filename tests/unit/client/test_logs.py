from __future__ import annotations

import json

import pytest

from gpujob.checkpoints import head as heads
from gpujob.checkpoints import lease
from gpujob.client import logs
from gpujob.core.layout import JobKeys
from gpujob.core.records import Event
from gpujob.store.memory import MemoryStore
from support.client import JOB_ID, make_entry

KEYS = JobKeys(JOB_ID)


@pytest.fixture
def store():
    store = MemoryStore()
    heads.create(store, JOB_ID)
    return store


def begin(store, attempt):
    lease.acquire(store, JOB_ID, attempt, f"holder-{attempt}", 0.0)


def put(store, attempt, stream, number, data: bytes):
    store.put(KEYS.attempt(attempt).segment(stream, number), data)


def lines(*values) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def test_segments_are_joined_in_order(store):
    for number, data in ((10, b"c"), (0, b"a"), (9, b"b")):
        put(store, 1, "log", number, data)
    put(store, 1, "metrics", 0, b"no log")
    assert logs.read_stream(store, JOB_ID, 1, "log") == b"abc"
    assert logs.read_stream(store, JOB_ID, 2, "log") == b""


def test_following_gives_everything_once_and_ends_with_the_job(store):
    over = []

    def world():
        begin(store, 1)
        yield put(store, 1, "log", 0, b"1a ")
        yield put(store, 1, "log", 1, b"1b ")
        put(store, 1, "log", 2, b"1c ")
        begin(store, 2)
        yield put(store, 2, "log", 0, b"2a ")
        over.append(True)
        yield put(store, 2, "log", 1, b"2b ")

    steps = world()
    got = list(logs.follow(store, JOB_ID, over=lambda: bool(over), pause=lambda: next(steps, None)))
    assert b"".join(got) == b"1a 1b 1c 2a 2b "


def test_following_a_job_that_never_began_ends_with_it(store):
    assert list(logs.follow(store, JOB_ID, over=lambda: True, pause=pytest.fail)) == []


def test_events_of_client_and_agents_are_one_story(store):
    begin(store, 1)
    told = Event(at=5.0, attempt=1, kind="restored", text="from step 4")
    put(store, 1, "events", 0, told.model_dump_json().encode() + b"\n" + b'{"torn')
    entry = make_entry().noting(1.0, "ACQUIRING", "a").noting(9.0, "SUCCEEDED", "b")
    assert [event.kind for event in logs.events(store, entry)] == ["ACQUIRING", "restored", "SUCCEEDED"]
    assert [event.kind for event in logs.events(None, entry)] == ["ACQUIRING", "SUCCEEDED"]


def test_metrics_hold_one_record_per_step_and_the_later_attempt_wins(store):
    begin(store, 1)
    put(store, 1, "metrics", 0, lines({"total_steps": 4}, {"step": 1, "loss": 1.0}, {"step": 2, "loss": 2.0}))
    put(store, 1, "metrics", 1, lines({"step": 2, "eval_loss": 2.5}, {"step": 3, "loss": 9.0}) + b'{"step": 4, "lo')
    begin(store, 2)
    put(store, 2, "metrics", 0, lines({"step": 3, "loss": 3.0}, {"step": 4, "loss": 4.0}, [1], "x"))
    assert logs.metrics(store, JOB_ID) == [
        {"step": 1, "loss": 1.0},
        {"step": 2, "loss": 2.0, "eval_loss": 2.5},
        {"step": 3, "loss": 3.0},
        {"step": 4, "loss": 4.0},
    ]
