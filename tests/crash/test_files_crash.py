"""Killed before any change of the disk, or in the middle of the bytes, a write leaves the old file or the new one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from gpujob import files
from gpujob.core.errors import NotFound
from gpujob.store.cloud import CloudStore
from gpujob.store.local import LocalStore
from support.killing import each_kill, process_of

pytestmark = pytest.mark.real

OLD, NEW = b"old " * 1000, b"the new one " * 1000


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed(work, *args) -> None:
    """Run `work` in a process of its own, which must end by SIGKILL."""
    process = process_of(work, *args)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def write_new(path: str) -> None:
    files.write(Path(path), NEW)


def write_half(path: str) -> None:
    with files.replacing(Path(path)) as temp:
        temp.write_bytes(NEW[: len(NEW) // 2])
        die()


def put_new(root: str) -> None:
    store = LocalStore(Path(root))
    store.put("a/key", NEW, if_match=store.head("a/key").etag)


def create_deep(root: str) -> None:
    LocalStore(Path(root)).put("deep/er/key", NEW, if_absent=True)


def put_file_new(root: str, source: str) -> None:
    LocalStore(Path(root)).put_file("a/key", Path(source))


def delete_key(root: str) -> None:
    LocalStore(Path(root)).delete("a/key")


def die_half_way(root: str, source: str) -> None:
    LocalStore(Path(root)).put_file("a/key", Path(source), lambda count: die())


def die_in_the_parts(url: str, env: dict[str, str], source: str) -> None:
    sent = 0

    def progress(count: int) -> None:
        nonlocal sent
        sent += count
        if sent > 200 << 20:
            die()

    CloudStore(url, env).put_file("big", Path(source), progress)


def test_a_write_killed_anywhere_leaves_the_old_file_or_the_new(tmp_path):
    path, seen = tmp_path / "folder" / "file", set()
    files.write(path, OLD)
    for _ in each_kill(tmp_path, write_new, str(path)):
        seen.add(path.read_bytes())
        assert [each for each in path.parent.iterdir() if not files.is_temp(each)] == [path]
    assert seen == {OLD}
    assert path.read_bytes() == NEW
    assert files.sweep(tmp_path) > 0
    assert list(path.parent.iterdir()) == [path]


def test_a_write_killed_half_way_is_swept_up_and_a_living_one_is_not(tmp_path):
    path = tmp_path / "file"
    files.write(path, OLD)
    killed(write_half, str(path))
    assert path.read_bytes() == OLD
    with files.replacing(path) as temp:
        assert files.sweep(tmp_path) == 1
        temp.write_bytes(NEW)
    assert path.read_bytes() == NEW
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("change", ["swap", "file", "delete", "create"])
def test_a_store_killed_anywhere_holds_the_old_object_or_the_new(tmp_path, change):
    root, source = tmp_path / "store", tmp_path / "source"
    source.write_bytes(NEW)
    store = LocalStore(root)
    store.put("a/key", OLD)
    work, *args = {
        "swap": (put_new,),
        "file": (put_file_new, str(source)),
        "delete": (delete_key,),
        "create": (create_deep,),
    }[change]
    deaths = 0
    for _ in each_kill(root, work, str(root), *args):
        deaths += 1
        content = {info.key: store.get(info.key) for info in store.list("")}
        assert content.get("a/key", OLD) in (OLD, NEW)
        assert set(content) <= {"a/key", "deep/er/key"}
        assert content.get("deep/er/key", NEW) == NEW
        store.put("a/key", OLD)  # nobody dead holds the lock
    assert deaths >= 3
    LocalStore(root).put("other", b"")
    names = sorted(path.name for path in root.rglob("*") if path.is_file() and path.name != ".gpujob-lock")
    assert names == sorted(
        {"swap": ["key"], "file": ["key"], "delete": [], "create": ["key", "key"]}[change] + ["other"]
    )


def test_a_store_killed_in_the_middle_of_a_file_holds_the_old_object(tmp_path):
    root, source = tmp_path / "store", tmp_path / "source"
    source.write_bytes(os.urandom(1 << 20) * 100)
    store = LocalStore(root)
    store.put("a/key", OLD)
    killed(die_half_way, str(root), str(source))
    assert [(info.key, info.size) for info in store.list("")] == [("a/key", len(OLD))]
    assert store.get("a/key") == OLD
    big = max(path.stat().st_size for path in root.rglob("*"))
    assert big > len(OLD), "the death was in the middle"
    LocalStore(root).put("other", b"")
    assert max(path.stat().st_size for path in root.rglob("*") if path.is_file()) == len(OLD)


def test_an_s3_upload_killed_among_its_parts_never_shows(s3, tmp_path):
    source, url = tmp_path / "source", s3.url()
    with source.open("wb") as file:
        file.truncate(256 << 20)
    store = CloudStore(url, s3.env)
    killed(die_in_the_parts, url, s3.env, str(source))
    with pytest.raises(NotFound):
        store.head("big")
    assert list(store.list("")) == []
    prefix = url.split("/", 3)[3]
    left = s3.client().list_multipart_uploads(Bucket=s3.bucket, Prefix=prefix).get("Uploads", [])
    assert len(left) == 1, "the death was among the parts"
