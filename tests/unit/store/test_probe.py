"""The probe believes what happens, not what is promised."""

from __future__ import annotations

import pytest

from gpujob.core.errors import StoreDenied, StoreError, StoreUnavailable
from gpujob.store.memory import MemoryStore
from gpujob.store.open import open_store
from gpujob.store.probe import probe
from support.faults import FaultyStore


class Ignoring(MemoryStore):
    """A server that takes the conditional headers and ignores one or both, as `rclone serve s3` does."""

    def __init__(self, ignored):
        super().__init__()
        self.ignored = ignored

    def put(self, key, data, *, if_absent=False, if_match=None):
        given = {"if_absent": if_absent, "if_match": if_match}
        return super().put(key, data, **{name: value for name, value in given.items() if name not in self.ignored})


class Refusing(MemoryStore):
    """A server that refuses every conditional put with an error of its own."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def put(self, key, data, *, if_absent=False, if_match=None):
        if if_absent or if_match:
            raise self.error
        return super().put(key, data)


class Forgetful(MemoryStore):
    def get(self, key, *, start=0, length=None):
        return b"something else"


def test_a_store_that_honours_conditions():
    store = MemoryStore()
    found = probe(store)
    assert found.conditional
    assert found.reads_what_was_written
    assert found.problems == ()
    assert list(store.list("")) == []


@pytest.mark.parametrize(
    ("ignored", "creates", "replaces"),
    [(("if_absent",), False, True), (("if_match",), True, False), (("if_absent", "if_match"), False, False)],
)
def test_ignored_conditions_are_found_out(ignored, creates, replaces):
    store = Ignoring(ignored)
    found = probe(store)
    assert store.capabilities.conditional, "it promises them"
    assert (found.creates_once, found.replaces_matching_only) == (creates, replaces)
    assert not found.conditional
    assert len(found.problems) == len(ignored)
    assert list(store.list("")) == []


def test_a_server_that_says_it_cannot_has_no_conditions():
    assert not probe(Refusing(StoreError("write", "key", "the server answers 501"))).conditional


@pytest.mark.parametrize("kind", [StoreDenied, StoreUnavailable])
def test_a_store_that_cannot_be_used_is_no_finding(kind):
    with pytest.raises(kind):
        probe(Refusing(kind("write", "key", "no")))


def test_a_store_without_conditions_is_not_asked_for_them(tmp_path):
    store = FaultyStore(MemoryStore(), conditional=False)
    found = probe(store)
    assert not found.conditional
    assert found.reads_what_was_written
    assert store.count("put") == 1


def test_lost_bytes_are_found_out():
    assert probe(Forgetful()).problems == ("it does not give back what was written",)


@pytest.mark.parametrize("kind", ["local", "fsspec", pytest.param("s3", marks=pytest.mark.real)])
def test_real_stores(request, tmp_path, kind):
    if kind == "s3":
        server = request.getfixturevalue("s3")
        store = open_store(server.url(), server.env)
    else:
        store = open_store(f"local://{tmp_path}" if kind == "fsspec" else str(tmp_path), {})
    found = probe(store)
    assert found.conditional == store.capabilities.conditional == (kind != "fsspec")
    assert found.reads_what_was_written
    assert list(store.list("")) == []
