"""What is special about a folder as a store."""

from __future__ import annotations

import json
import os
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpujob import locks
from gpujob.core.errors import AlreadyExists, PreconditionFailed, StoreDenied, StoreError, StoreUnavailable
from gpujob.store.failures import disk
from gpujob.store.local import LocalStore, _stamp
from support.killing import process_of

PROCESSES, ROUNDS = 12, 20


def count_up(root: str, name: str) -> None:
    """Add this writer's name to one object, ROUNDS times, by compare-and-swap; and try to be the one creator."""
    store = LocalStore(Path(root))
    try:
        store.put("created", name.encode(), if_absent=True)
        store.put(f"winners/{name}", b"")
    except AlreadyExists:
        pass
    done = 0
    while done < ROUNDS:
        etag = store.head("list").etag
        names = json.loads(store.get("list"))["names"]
        try:
            store.put("list", encode([*names, name]), if_match=etag)
            done += 1
        except PreconditionFailed:
            continue


def encode(names: list[str]) -> bytes:
    return json.dumps({"nonce": secrets.token_hex(4), "names": names}).encode()


@pytest.mark.real
def test_twelve_processes_lose_no_swap(tmp_path):
    store = LocalStore(tmp_path)
    store.put("list", encode([]))
    processes = [process_of(count_up, str(tmp_path), f"writer-{n}") for n in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    names = json.loads(store.get("list"))["names"]
    assert sorted(names) == sorted(f"writer-{n}" for n in range(PROCESSES) for _ in range(ROUNDS))
    assert [info.key for info in store.list("winners/")] == [f"winners/{store.get('created').decode()}"]


def test_the_same_bytes_again_are_another_version(tmp_path):
    store = LocalStore(tmp_path)
    etags = [store.put("key", content) for _ in range(20) for content in (b"A", b"B")]
    assert len(set(etags)) == len(etags)


def test_a_clock_that_stands_still_does_not_make_two_versions_one(tmp_path):
    """Many disks stamp by a clock of a few milliseconds, and use a removed file's inode for the next one."""
    path, etags = tmp_path / "the one inode", set()
    path.write_bytes(b"A")
    for _ in range(50):
        os.utime(path, ns=(10**18, 10**18))
        etags.add(_stamp(path))
    assert len(etags) > 40
    assert abs(path.stat().st_mtime_ns - 10**18) < 10**6


def test_every_change_is_made_under_the_lock(tmp_path, monkeypatch):
    root, source, seen = tmp_path / "store", tmp_path / "source", []
    source.write_bytes(b"x")
    store = LocalStore(root)
    old = store.put("key", b"x")
    replace, unlink = os.replace, Path.unlink

    def watched_replace(temp: Path, target: Path) -> None:
        seen.append(("replace", locks.is_held(root / ".gpujob-lock")))
        replace(temp, target)

    def watched_unlink(path: Path, missing_ok: bool = False) -> None:
        seen.append(("unlink", locks.is_held(root / ".gpujob-lock")))
        unlink(path, missing_ok)

    monkeypatch.setattr(os, "replace", watched_replace)
    monkeypatch.setattr(Path, "unlink", watched_unlink)
    store.put("key", b"y", if_match=old)
    store.put("key", b"y")
    store.put("new", b"y", if_absent=True)
    store.put_file("key", source)
    store.delete("key")
    assert seen == [("replace", True)] * 4 + [("unlink", True)]


def test_making_a_store_touches_nothing(tmp_path):
    store = LocalStore(tmp_path / "store")
    assert list(store.list("")) == []
    store.delete("key")
    assert list(tmp_path.iterdir()) == []


def test_deleting_removes_the_folders_it_empties(tmp_path):
    store = LocalStore(tmp_path)
    store.put("jobs/a/checkpoints/1/file", b"")
    store.put("jobs/b/file", b"")
    store.delete("jobs/a/checkpoints/1/file")
    assert sorted(path.name for path in tmp_path.rglob("*")) == [".gpujob-lock", "b", "file", "jobs"]


def test_a_folder_emptied_under_a_write_is_made_again(tmp_path):
    store = LocalStore(tmp_path)

    def come_and_go(number: int) -> None:
        for _ in range(60):
            store.put(f"deep/er/{number}", b"x")
            store.delete(f"deep/er/{number}")

    with ThreadPoolExecutor(6) as pool:
        errors = [future.exception() for future in [pool.submit(come_and_go, number) for number in range(6)]]
    assert errors == [None] * 6
    assert not (tmp_path / "deep").exists()


def test_a_list_beside_deletions_gives_what_stays(tmp_path):
    store, stop = LocalStore(tmp_path), threading.Event()
    store.put("stays", b"")

    def come_and_go() -> None:
        while not stop.is_set():
            store.put("goes/key", b"")
            store.delete("goes/key")

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(come_and_go)
        seen = [{info.key for info in store.list("")} for _ in range(200)]
        stop.set()
        future.result()
    assert all("stays" in names for names in seen)


def test_an_object_in_the_way_is_an_error(tmp_path):
    store = LocalStore(tmp_path)
    store.put("a", b"object")
    store.put("b/c", b"object")
    with pytest.raises(StoreError):
        store.put("a/below", b"")
    with pytest.raises(StoreError):
        store.put("b", b"")
    assert [info.key for info in store.list("")] == ["a", "b/c"]
    assert not list(tmp_path.rglob(".gpujob-tmp-*"))


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path):
    store, source = LocalStore(tmp_path / "store"), tmp_path / "source"
    source.write_bytes(b"x" * 1000)

    def grow(count: int) -> None:
        with source.open("ab") as file:
            file.write(b"y" * (count if source.stat().st_size < 5000 else 0))

    with pytest.raises(StoreError, match="changed"):
        store.put_file("key", source, grow)
    assert list(store.list("")) == []


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (13, StoreDenied),
        (30, StoreDenied),
        (28, StoreError),
        (116, StoreUnavailable),
        (5, StoreUnavailable),
        (40, StoreError),
    ],
)
def test_what_a_disk_says_becomes_an_error_of_the_contract(number, kind):
    with pytest.raises(StoreError, match="cannot write key") as caught, disk("write", "key"):
        raise OSError(number, os.strerror(number), "/mnt/nas/key")
    assert type(caught.value) is kind
    assert os.strerror(number) in str(caught.value)
