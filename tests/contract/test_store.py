"""The contract of store/protocol.py, point by point, over every implementation."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpujob.core.errors import AlreadyExists, Fenced, NotFound, PreconditionFailed, StoreError
from gpujob.store.open import open_store
from gpujob.store.protocol import Store

WRITERS = 12

REFUSED = (
    *("", ".", "..", "/absolute", "../outside", "a/../../outside", "a//b", "a/./b", "a/"),
    *("nul\0", "new\nline", "tab\there", "bell\x07", "\x7f", "undecodable\udcff"),
    *(".gpujob-lock", "a/.gpujob-tmp-1", "x" * 256, "é" * 128, "long/" * 200 + "x"),
)
"""Keys that no store takes."""


S3 = pytest.param("s3", marks=pytest.mark.real)


@pytest.fixture(params=["memory", "local", "fsspec", S3])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store of each kind."""
    return open_kind(request, tmp_path)


@pytest.fixture(params=["memory", "local", S3])
def swapping(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store of each kind that decides between writers."""
    return open_kind(request, tmp_path)


def open_kind(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Open a store as everybody does; the S3 server is started by the first test that wants it."""
    folder = tmp_path / "the store"
    if request.param == "s3":
        server = request.getfixturevalue("s3")
        return open_store(server.url(), server.env)
    urls = {"memory": f"memory://{folder}", "local": str(folder), "fsspec": f"local://{folder}"}
    return open_store(urls[request.param], {})


def keys(store: Store, prefix: str = "") -> list[str]:
    return [info.key for info in store.list(prefix)]


def all_at_once(works: list[Callable[[], object]]) -> list[object]:
    """Run functions at the same moment; give their results or errors."""
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> object:
        barrier.wait()
        try:
            return work()
        except StoreError as error:
            return error

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


# --- reading and writing


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 100])
def test_get_gives_what_put_wrote(store, data):
    store.put("jobs/a/file", data)
    assert store.get("jobs/a/file") == data
    assert store.head("jobs/a/file").size == len(data)


def test_a_put_replaces_the_object(store):
    old = store.put("key", b"the old one")
    new = store.put("key", b"new")
    assert store.get("key") == b"new"
    assert old != new == store.head("key").etag


def test_head_describes_the_object(store):
    etag = store.put("a/b", b"12345")
    info = store.head("a/b")
    assert (info.key, info.size, info.etag) == ("a/b", 5, etag)
    assert info.modified > 1e9


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [
        (0, None, b"0123456789"),
        (0, 4, b"0123"),
        (3, 4, b"3456"),
        (3, None, b"3456789"),
        (8, 100, b"89"),
        (10, None, b""),
        (10, 5, b""),
        (99, 5, b""),
        (0, 0, b""),
        (4, 0, b""),
    ],
)
def test_ranges(store, start, length, expected):
    store.put("key", b"0123456789")
    assert store.get("key", start=start, length=length) == expected


def test_what_is_not_there_is_not_found(store, tmp_path):
    store.put("a/there", b"")
    for key in ("missing", "a/missing", "a"):
        for ask in (
            lambda key=key: store.get(key),
            lambda key=key: store.get(key, start=3, length=2),
            lambda key=key: store.get(key, length=0),
            lambda key=key: store.head(key),
            lambda key=key: store.get_file(key, tmp_path / "target"),
        ):
            with pytest.raises(NotFound):
                ask()
    assert not (tmp_path / "target").exists()


def test_deleting_twice_is_success(store):
    store.put("a/b/key", b"x")
    store.put("a/other", b"x")
    store.delete("a/b/key")
    store.delete("a/b/key")
    store.delete("never/there")
    assert keys(store) == ["a/other"]
    store.put("a/b/key", b"again")
    assert store.get("a/b/key") == b"again"


def test_an_empty_store_lists_nothing(store):
    assert keys(store) == []
    assert keys(store, "jobs/x/") == []


def test_list_is_in_key_order_and_by_any_prefix(store):
    names = ["a/b", "a-b", "a.c", "a0", "a/b0/c", "a/a/z", "Z/y", "b/é", "b/e", "b/z"]
    # Deeper than the order of folders: "a-b" < "a/b" < "a0".
    for name in random.Random(5).sample(names, len(names)):
        if name != "a/b":
            store.put(name, name.encode())
    names.remove("a/b")
    assert keys(store) == sorted(names)
    for prefix in ("a", "a/", "a/b", "a-", "b/", "b/e", "b/zz", "nothing/", "Z/y"):
        assert keys(store, prefix) == sorted(name for name in names if name.startswith(prefix)), prefix
    for info in store.list("a"):
        assert info.size == len(info.key.encode())


def test_a_list_of_many_pages_is_whole_and_in_order(store):
    names = [f"many/{number:04d}" for number in range(1100)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: store.put(name, b""), random.Random(1).sample(names, len(names))))
    assert keys(store, "many/") == names


def test_every_put_is_seen_at_once(store):
    for number in range(20):
        store.put("beat", str(number).encode())
        store.put(f"log/{number:06d}", b"x")
        assert store.get("beat") == str(number).encode()
        assert keys(store, "log/")[-1] == f"log/{number:06d}"


def test_a_reader_never_sees_a_mix(store):
    versions = [bytes([number]) * 200_000 for number in range(30)]
    store.put("key", versions[0])

    def read() -> set[bytes]:
        return {store.get("key") for _ in range(30)}

    seen, _ = all_at_once([read, lambda: [store.put("key", version) for version in versions]])
    assert seen <= set(versions)


# --- files


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (40 << 20) + 12_345])
def test_a_file_comes_back_as_it_went(store, tmp_path, size):
    source, target = tmp_path / "source", tmp_path / "new" / "folder" / "target"
    source.write_bytes(random.Random(size).randbytes(size))
    sent, received = [], []
    store.put_file("files/big", source, sent.append)
    assert store.head("files/big").size == size == sum(sent)
    store.get_file("files/big", target, received.append)
    assert target.read_bytes() == source.read_bytes()
    assert sum(received) == size
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_an_uploaded_file_is_a_copy(store, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"as it was")
    store.put_file("key", source)
    with source.open("r+b") as file:
        file.write(b"CHANGED")
    assert store.get("key") == b"as it was"
    store.get_file("key", target)
    with target.open("r+b") as file:
        file.write(b"CHANGED")
    assert store.get("key") == b"as it was"


def test_files_replace_what_was_there(store, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    store.put("key", b"an object")
    source.write_bytes(b"new")
    target.write_bytes(b"an old and longer file")
    store.put_file("key", source)
    store.get_file("key", target)
    assert target.read_bytes() == b"new"


def test_the_callers_own_file_fails_as_files_do(store, tmp_path):
    (tmp_path / "a file").write_bytes(b"")
    with pytest.raises(FileNotFoundError):
        store.put_file("key", tmp_path / "missing")
    assert keys(store) == []
    store.put("key", b"x")
    with pytest.raises(OSError, match="a file"):
        store.get_file("key", tmp_path / "a file" / "target")


def test_a_failed_download_leaves_the_old_file(store, tmp_path):
    target = tmp_path / "target"
    target.write_bytes(b"old")
    store.put("key", b"x" * 5_000_000)

    def breaking(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.get_file("key", target, breaking)
    assert target.read_bytes() == b"old"
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize("size", [1000, 20 << 20])
@pytest.mark.parametrize("error", [Fenced("go on with", "it", "over"), KeyboardInterrupt()], ids=repr)
def test_progress_breaks_a_transfer_off_with_its_own_error(store, tmp_path, size, error):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"x" * size)
    store.put("old", b"old")
    store.put_file("big", source)

    def breaking(count: int) -> None:
        raise error

    for move in (
        lambda: store.put_file("old", source, breaking),
        lambda: store.put_file("new", source, breaking),
        lambda: store.get_file("big", target, breaking),
    ):
        with pytest.raises(type(error)) as caught:
            move()
        assert caught.value is error
    assert store.get("old") == b"old"
    assert keys(store) == ["big", "old"]
    assert not target.exists()


# --- keys


def test_hostile_names_come_out_as_they_went_in(store, tmp_path, hostile_name):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"from a file")
    for key in (f"dir/{hostile_name}", f"{hostile_name}/below"):
        store.put(key, b"data")
        assert store.get(key) == b"data"
        store.put_file(key, source)
        assert store.head(key).size == 11
        store.get_file(key, target)
        assert target.read_bytes() == b"from a file"
        assert keys(store, key.rpartition("/")[0] + "/") == [key]
        assert keys(store, key[:-1]) == [key]
        store.delete(key)
        assert keys(store) == []


@pytest.mark.parametrize("key", REFUSED, ids=range(len(REFUSED)))
def test_no_store_takes_a_bad_key(store, tmp_path, key):
    source = tmp_path / "source"
    source.write_bytes(b"")
    for ask in (
        lambda: store.get(key),
        lambda: store.put(key, b""),
        lambda: store.put(key, b"", if_absent=True),
        lambda: store.put_file(key, source),
        lambda: store.get_file(key, tmp_path / "target"),
        lambda: store.head(key),
        lambda: store.delete(key),
    ):
        with pytest.raises(ValueError, match=r"cannot be a key|surrogates"):
            ask()
    assert sorted(path.name for path in tmp_path.iterdir()) in (["source"], ["source", "the store"])


@pytest.mark.parametrize("prefix", ["/", "../", "a/../", "a//", "./"])
def test_no_store_lists_outside(store, prefix):
    with pytest.raises(ValueError, match="cannot be a key"):
        list(store.list(prefix))


# --- conditions


def test_if_absent_writes_once(swapping):
    etag = swapping.put("key", b"first", if_absent=True)
    with pytest.raises(AlreadyExists):
        swapping.put("key", b"second", if_absent=True)
    assert swapping.get("key") == b"first"
    assert swapping.head("key").etag == etag
    swapping.delete("key")
    swapping.put("key", b"third", if_absent=True)
    assert swapping.get("key") == b"third"


def test_if_match_swaps_only_the_version_it_names(swapping):
    first = swapping.put("key", b"1")
    second = swapping.put("key", b"2", if_match=first)
    with pytest.raises(PreconditionFailed):
        swapping.put("key", b"stale", if_match=first)
    assert swapping.get("key") == b"2"
    third = swapping.put("key", b"3", if_match=second)
    assert swapping.head("key").etag == third
    assert len({first, second, third}) == 3


def test_if_match_needs_an_object(swapping):
    etag = swapping.put("key", b"1")
    swapping.delete("key")
    with pytest.raises(PreconditionFailed):
        swapping.put("key", b"2", if_match=etag)
    assert keys(swapping) == []


def test_two_conditions_are_a_mistake(swapping):
    with pytest.raises(ValueError, match="exclude"):
        swapping.put("key", b"", if_absent=True, if_match="x")


def test_a_store_without_conditions_never_pretends(tmp_path):
    store = open_store(f"local://{tmp_path}", {})
    assert not store.capabilities.conditional
    for condition in ({"if_absent": True}, {"if_match": "x"}):
        with pytest.raises(StoreError, match="no conditional writes"):
            store.put("key", b"", **condition)
    assert keys(store) == []


def rounds(store: Store) -> Iterator[int]:
    # SeaweedFS decides between twelve writers in seconds.
    return iter(range(3 if store.url.startswith("s3") else 30))


def test_of_twelve_creators_one_wins(swapping):
    for number in rounds(swapping):
        key, nonces = f"race/{number}", [os.urandom(8) for _ in range(WRITERS)]
        results = all_at_once([lambda k=key, n=nonce: swapping.put(k, n, if_absent=True) for nonce in nonces])
        winners = [nonce for nonce, result in zip(nonces, results, strict=True) if isinstance(result, str)]
        assert len(winners) == 1
        assert swapping.get(key) == winners[0]
        assert all(isinstance(result, (str, AlreadyExists)) for result in results)


def test_of_twelve_swappers_one_wins(swapping):
    etag = swapping.put("race", b"start")
    for _ in rounds(swapping):
        nonces = [os.urandom(8) for _ in range(WRITERS)]
        results = all_at_once([lambda n=nonce, e=etag: swapping.put("race", n, if_match=e) for nonce in nonces])
        winners = [nonce for nonce, result in zip(nonces, results, strict=True) if isinstance(result, str)]
        assert len(winners) == 1
        assert swapping.get("race") == winners[0]
        assert all(isinstance(result, (str, PreconditionFailed)) for result in results)
        etag = swapping.head("race").etag


def test_a_swap_beside_a_plain_put_loses_or_comes_first(swapping):
    for _ in rounds(swapping):
        etag = swapping.put("key", os.urandom(8))
        plain, swap = os.urandom(8), os.urandom(8)
        results = all_at_once(
            [lambda p=plain: swapping.put("key", p), lambda s=swap, e=etag: swapping.put("key", s, if_match=e)]
        )
        # A swap that won came first and was overwritten; one that lost changed nothing.
        assert swapping.get("key") == plain, results
