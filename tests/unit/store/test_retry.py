"""The retry wrapper: bounded, only for what may pass, never for a conditional put."""

from __future__ import annotations

import pytest

from gpujob.core.errors import NotFound, StoreDenied, StoreError, StoreUnavailable
from gpujob.store.memory import MemoryStore
from gpujob.store.retry import ATTEMPTS, Retrying
from support.faults import FaultyStore

GONE = StoreUnavailable("ask", "it", "no answer")


@pytest.fixture
def faulty():
    store = FaultyStore(MemoryStore())
    store.inner.put("key", b"data")
    return store


def calls(store, path):
    """Every call that may be repeated."""
    return {
        "get": lambda: store.get("key", start=1, length=2),
        "put": lambda: store.put("key", b"data"),
        "put_file": lambda: store.put_file("key", path),
        "get_file": lambda: store.get_file("key", path.with_name("target")),
        "head": lambda: store.head("key"),
        "list": lambda: [info.key for info in store.list("")],
        "delete": lambda: store.delete("key"),
    }


METHODS = ("get", "put", "put_file", "get_file", "head", "list", "delete")


@pytest.fixture
def path(tmp_path):
    (tmp_path / "source").write_bytes(b"data")
    return tmp_path / "source"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("after", [False, True], ids=["lost on the way", "answer lost"])
def test_what_may_pass_is_tried_again(faulty, path, method, after):
    pauses = []
    faulty.fail(method, GONE, times=ATTEMPTS - 1, after=after)
    result = calls(Retrying(faulty, pauses.append), path)[method]()
    assert faulty.count(method) == ATTEMPTS
    assert len(pauses) == ATTEMPTS - 1
    assert all(0 <= pause <= 10 for pause in pauses)
    expected = {"get": b"at", "list": ["key"]}
    assert result == expected.get(method, result)


@pytest.mark.parametrize("method", METHODS)
def test_it_gives_up_with_the_error_itself(faulty, path, method):
    faulty.fail(method, GONE, times=99)
    with pytest.raises(StoreUnavailable) as caught:
        calls(Retrying(faulty, lambda pause: None), path)[method]()
    assert caught.value is GONE
    assert faulty.count(method) == ATTEMPTS


@pytest.mark.parametrize("kind", [StoreDenied, NotFound, StoreError])
def test_what_will_not_pass_is_asked_once(faulty, kind):
    faulty.fail("get", kind("read", "key", "no"), times=99)
    with pytest.raises(kind):
        Retrying(faulty, pytest.fail).get("key")
    assert faulty.count("get") == 1


@pytest.mark.parametrize("condition", [{"if_absent": True}, {"if_match": '"1"'}])
def test_a_conditional_put_is_never_repeated(faulty, condition):
    """It won although its answer was lost; a second try would say that it had not."""
    key = "new" if "if_absent" in condition else "key"
    faulty.fail("put", GONE, after=True)
    with pytest.raises(StoreUnavailable):
        Retrying(faulty, pytest.fail).put(key, b"nonce", **condition)
    assert faulty.count("put") == 1
    assert faulty.inner.get(key) == b"nonce"


def test_a_list_that_breaks_off_is_begun_again(faulty):
    def broken_list(prefix):
        yield faulty.inner.head("key")
        raise GONE

    lists = iter([broken_list, faulty.inner.list])
    faulty.list = lambda prefix: next(lists)(prefix)
    assert [info.key for info in Retrying(faulty, lambda pause: None).list("")] == ["key"]


def test_progress_counts_no_byte_twice(faulty, tmp_path):
    class Halting(MemoryStore):
        """Breaks off twice, further on each time."""

        stops = iter([3, 6, 99])

        def put_file(self, key, path, progress=None):
            stop = next(self.stops)
            for number, _ in enumerate(path.read_bytes()):
                if number == stop:
                    raise GONE
                progress(1)

    told = []
    (tmp_path / "source").write_bytes(b"0123456789")
    Retrying(Halting(), lambda pause: None).put_file("key", tmp_path / "source", told.append)
    assert sum(told) == 10
    assert all(count > 0 for count in told)


def test_pauses_grow_and_differ(faulty):
    runs = []
    for _ in range(40):
        pauses = []
        faulty.fail("head", GONE, times=ATTEMPTS - 1)
        Retrying(faulty, pauses.append).head("key")
        runs.append(pauses)
    assert len({pauses[0] for pauses in runs}) > 10
    assert max(pauses[0] for pauses in runs) < max(pauses[-1] for pauses in runs)
