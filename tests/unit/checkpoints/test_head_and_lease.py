from __future__ import annotations

import threading

import pytest

from gpujob.checkpoints import head, lease
from gpujob.core.errors import AlreadyExists, Fenced, NotFound, PreconditionFailed, StoreUnavailable
from gpujob.core.layout import JobKeys
from gpujob.core.reasons import Reason
from gpujob.core.records import Head, Heartbeat, Intent, Phase
from gpujob.store.memory import MemoryStore
from support.checkpoints import JOB, start


def beat(attempt: int, elapsed: float, cost: float) -> Heartbeat:
    return Heartbeat(
        attempt=attempt, generation=attempt, holder="h", at=0, phase=Phase.TRAINING, elapsed=elapsed, cost=cost
    )


def test_a_job_has_one_head() -> None:
    store = MemoryStore()
    with pytest.raises(NotFound):
        head.read(store, JOB)
    head.create(store, JOB)
    with pytest.raises(AlreadyExists):
        head.create(store, JOB)


def test_no_two_versions_are_equal() -> None:
    store = MemoryStore()
    head.create(store, JOB)
    seen = {head.read(store, JOB).nonce}
    for intent in (Intent.STOP, Intent.RUN, Intent.STOP, Intent.RUN):
        seen.add(head.update(store, JOB, lambda old, to=intent: old.model_copy(update={"intent": to})).nonce)
    assert len(seen) == 5


def test_concurrent_changes_are_all_kept() -> None:
    store = MemoryStore()
    head.create(store, JOB)

    def add() -> None:
        for _ in range(10):
            head.update(store, JOB, lambda old: old.model_copy(update={"spent_seconds": old.spent_seconds + 1}))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert head.read(store, JOB).spent_seconds == 40


class LostAnswer(MemoryStore):
    """A store whose next conditional put wins, and whose answer is lost."""

    def __init__(self, error: type[Exception]) -> None:
        super().__init__()
        self.error: type[Exception] | None = error

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        etag = super().put(key, data, if_absent=if_absent, if_match=if_match)
        if if_match and self.error:
            error, self.error = self.error, None
            raise error("write", key, "the answer was lost")
        return etag


@pytest.mark.parametrize("error", [StoreUnavailable, PreconditionFailed])
def test_a_won_swap_whose_answer_was_lost_counts_once(error: type[Exception]) -> None:
    store = LostAnswer(error)
    head.create(store, JOB)
    head.update(store, JOB, lambda old: old.model_copy(update={"spent_seconds": old.spent_seconds + 1}))
    assert head.read(store, JOB).spent_seconds == 1


def test_a_newer_attempt_takes_over_and_the_older_one_is_fenced() -> None:
    store = MemoryStore()
    first = start(store, 1)
    assert lease.check(first).attempt == 1
    second = start(store, 2)
    assert second.generation == first.generation + 1
    lease.check(second)
    with pytest.raises(Fenced, match="attempt 2"):
        lease.check(first)
    with pytest.raises(Fenced):
        lease.finish(first, 1, 1, Reason.DONE)
    assert head.read(store, JOB).outcome is None


@pytest.mark.parametrize("attempt", [1, 2])
def test_an_attempt_that_is_not_newer_never_gets_the_lease(attempt: int) -> None:
    store = MemoryStore()
    start(store, 1)
    start(store, 2)
    with pytest.raises(Fenced):
        lease.acquire(store, JOB, attempt, "late", 0)


@pytest.mark.parametrize("driver", ["desk", None])
def test_only_the_client_that_drives_the_job_may_start_an_attempt(driver: str | None) -> None:
    store = MemoryStore()
    start(store, 1)
    head.update(store, JOB, lambda old: old.model_copy(update={"driver": "laptop"}))
    with pytest.raises(Fenced, match="another computer"):
        lease.acquire(store, JOB, 2, "h", 0, driver=driver)
    assert lease.acquire(store, JOB, 2, "h", 0, driver="laptop").generation == 2


def test_the_same_holder_may_ask_twice() -> None:
    store = MemoryStore()
    assert start(store, 1) == lease.acquire(store, JOB, 1, "holder-1", 5)


def test_what_a_lost_attempt_spent_is_booked_once() -> None:
    store = MemoryStore()
    start(store, 1)
    store.put(JobKeys(JOB).attempt(1).beat, beat(1, 100, 0.5).encode())
    start(store, 2)
    assert (head.read(store, JOB).spent_seconds, head.read(store, JOB).spent_cost) == (100, 0.5)
    start(store, 3)
    assert head.read(store, JOB).spent_seconds == 100


def test_finishing_books_once_even_when_asked_twice() -> None:
    store = MemoryStore()
    held = start(store, 1)
    for _ in range(2):
        lease.finish(held, 60, 0.25, Reason.DONE)
    now = head.read(store, JOB)
    assert (now.lease, now.spent_seconds, now.spent_cost, now.outcome) == (None, 60, 0.25, Reason.DONE)


def test_a_job_that_is_over_starts_no_attempt() -> None:
    store = MemoryStore()
    lease.finish(start(store, 1), 1, 0, Reason.DONE)
    with pytest.raises(Fenced, match="DONE"):
        lease.acquire(store, JOB, 2, "h", 0)


def test_closing_from_outside_fences_the_running_attempt_and_keeps_the_first_outcome() -> None:
    store = MemoryStore()
    held = start(store, 1)
    store.put(JobKeys(JOB).attempt(1).beat, beat(1, 10, 0.1).encode())
    lease.close(store, JOB, Reason.CANCELLED)
    lease.close(store, JOB, Reason.CRASHED)
    now = head.read(store, JOB)
    assert (now.outcome, now.spent_seconds) == (Reason.CANCELLED, 10)
    with pytest.raises(Fenced):
        lease.check(held)


def test_a_newer_versions_head_is_read() -> None:
    data = Head(job_id=JOB, nonce="n").encode().replace(b'"nonce"', b'"from_the_future": [1], "nonce"')
    assert Head.decode(data).nonce == "n"
