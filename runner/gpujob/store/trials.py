"""What any store is put to before a job depends on it: rights, order, conditions, large objects, speed."""

from __future__ import annotations

import secrets
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpujob import files
from gpujob.core.errors import AlreadyExists, NotFound, PreconditionFailed, StoreError, StoreUnavailable
from gpujob.core.units import show_bytes
from gpujob.store.findings import Finding, error, ok
from gpujob.store.probe import try_conditions
from gpujob.store.trial import Trial

WRITERS, RACES = 8, 3
ROUNDS = 10
LARGE = 20 << 20
"""Bytes; more than one part of a multipart upload."""
_ASKED = 5
_CONDITIONAL = (
    "keep jobs in S3, GCS, Azure, R2, SeaweedFS, MinIO or a folder; without conditions two attempts could both go on"
)


def order(trial: Trial) -> Iterator[Finding]:
    """See whether every read and list that starts after a write or deletion sees it."""
    store, key, wrong = trial.store, trial.key("order"), set[str]()
    for number in range(ROUNDS):
        data, fresh = secrets.token_bytes(32), trial.key(f"list/{number}")
        store.put(key, data)
        store.put(fresh, data)
        if store.get(key) != data:
            wrong.add("a read after an overwrite gave older bytes")
        if store.get(key, start=3, length=5) != data[3:8]:
            wrong.add("a read of a range gave other bytes")
        if not _listed(trial, fresh):
            wrong.add("a new object was not in the list")
        store.delete(fresh)
        if _listed(trial, fresh) or _readable(trial, fresh):
            wrong.add("a deleted object was still there")
    if wrong:
        hint = "if there is a cache or a replica in front of the store, use the address of the store itself"
        yield error("order", "; ".join(sorted(wrong)), hint)
    else:
        yield ok("order", f"what is written, replaced or deleted is seen at once ({ROUNDS} rounds)")


def conditions(trial: Trial) -> Iterator[Finding]:
    """See whether create-if-absent and replace-if-match decide between writers, one after the other and at once."""
    store = trial.store
    if not store.capabilities.conditional:
        yield error("conditional writes", "this kind of store has none; it can hold data, not jobs", _CONDITIONAL)
        return
    creates, replaces = try_conditions(store, trial.key("conditions"))
    wrong = [] if creates else ["a second create-if-absent was let through"]
    wrong += [] if replaces else ["replace-if-match is not honoured"]
    if not wrong:
        wrong = sorted(
            {problem for number in range(RACES) for problem in (*_creating(trial, number), *_swapping(trial))}
        )
    if wrong:
        yield error("conditional writes", "; ".join(wrong), _CONDITIONAL)
    else:
        yield ok(
            "conditional writes", f"create and swap have one winner among {WRITERS} writers at once ({RACES} rounds)"
        )


def large(trial: Trial) -> Iterator[Finding]:
    """Upload an object of several parts and read it back; give what that says about speed."""
    store, key = trial.store, trial.key("large")
    with tempfile.TemporaryDirectory(prefix="gpujob-check-") as folder:
        sent, received = Path(folder, "sent"), Path(folder, "received")
        sent.write_bytes(secrets.token_bytes(LARGE))
        up = _timed(lambda: store.put_file(key, sent, _moving(trial, "sending")))
        down = _timed(lambda: store.get_file(key, received, _moving(trial, "fetching")))
        same = files.digest(sent) == files.digest(received)
    if not same:
        yield error("large objects", "what came back is not what was sent", "do not use this store")
        return
    yield ok("large objects", f"{show_bytes(LARGE)} in several parts came back as they went")
    trial.say("measuring")
    asked = statistics.median(_timed(lambda: store.head(key)) for _ in range(_ASKED))
    speeds = f"{show_bytes(LARGE / up)}/s up, {show_bytes(LARGE / down)}/s down, {asked * 1000:.0f} ms per request"
    yield ok("speed", f"{speeds}, from this computer")


def _listed(trial: Trial, key: str) -> bool:
    return any(info.key == key for info in trial.store.list(trial.prefix))


def _readable(trial: Trial, key: str) -> bool:
    try:
        trial.store.get(key)
    except NotFound:
        return False
    return True


def _creating(trial: Trial, number: int) -> list[str]:
    key = trial.key(f"create/{number}")
    return _race(trial, key, lambda data: trial.store.put(key, data, if_absent=True), AlreadyExists)


def _swapping(trial: Trial) -> list[str]:
    key = trial.key("swap")
    etag = trial.store.put(key, secrets.token_bytes(16))
    return _race(trial, key, lambda data: trial.store.put(key, data, if_match=etag), PreconditionFailed)


def _race(trial: Trial, key: str, put: Callable[[bytes], str], refusal: type[StoreError]) -> list[str]:
    """Let writers go at the same moment; give what is wrong with the outcome. An answer that was lost says nothing."""
    barrier = threading.Barrier(WRITERS)

    def write(data: bytes) -> bool | None:
        barrier.wait()
        try:
            put(data)
        except refusal:
            return False
        except StoreUnavailable:
            return None
        return True

    wishes = [secrets.token_bytes(16) for _ in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        answers = list(pool.map(write, wishes))
    winners = [wish for wish, won in zip(wishes, answers, strict=True) if won]
    if len(winners) > 1:
        return ["several writers at once were told that they won"]
    if not winners and None not in answers:
        return ["of several writers at once none won"]
    if winners and trial.store.get(key) != winners[0]:
        return ["the bytes of a writer that lost are there"]
    return []


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _moving(trial: Trial, what: str) -> Callable[[int], None]:
    moved = 0

    def tell(more: int) -> None:
        nonlocal moved
        moved += more
        trial.say(f"{what} {show_bytes(moved)} of {show_bytes(LARGE)}")

    return tell
