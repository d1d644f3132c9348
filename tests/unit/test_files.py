"""Atomic writes, hashing and names."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from gpujob import files
from gpujob.core.errors import Damaged
from support.hostile import ESCAPING, TRAVELLING


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_write_replaces_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "new" / "folder" / "file"
    files.write(path, b"one")
    files.write(path, b"two")
    assert path.read_bytes() == b"two"
    assert names(path.parent) == ["file"]


def test_a_secret_is_never_readable_by_others(tmp_path):
    old = os.umask(0)
    try:
        with files.replacing(tmp_path / "secret", mode=0o600) as temp:
            assert temp.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(old)
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


def test_an_error_leaves_the_old_file(tmp_path):
    files.write(tmp_path / "file", b"old")

    def write_half() -> None:
        with files.replacing(tmp_path / "file") as temp:
            temp.write_bytes(b"half")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        write_half()
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_a_swap_may_refuse(tmp_path):
    files.write(tmp_path / "file", b"old")

    def refuse(temp: Path, path: Path) -> None:
        assert temp.read_bytes() == b"new"
        raise Damaged("swap", path.name, "no")

    with pytest.raises(Damaged), files.replacing(tmp_path / "file", swap=refuse) as temp:
        temp.write_bytes(b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_inside_another_write_the_same_temporary_is_used(tmp_path):
    with files.replacing(tmp_path / "tool", mode=0o755) as outer:
        with files.replacing(outer) as inner:
            assert inner == outer
            inner.write_bytes(b"x")
        assert names(tmp_path) == [outer.name]
    assert (tmp_path / "tool").stat().st_mode & 0o100
    assert names(tmp_path) == ["tool"]


def test_writers_of_one_file_leave_one_whole_version(tmp_path):
    versions = [bytes([number]) * 50_000 for number in range(8)]
    threads = [threading.Thread(target=files.write, args=(tmp_path / "file", version)) for version in versions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "file").read_bytes() in versions
    assert names(tmp_path) == ["file"]


def test_a_sweep_takes_what_the_dead_left_and_nothing_else(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".gpujob-tmp-dead").write_bytes(b"x")
    (tmp_path / ".gpujob-tmp-folder").mkdir()
    (tmp_path / ".gpujob-tmp-link").symlink_to(tmp_path / "file")
    (tmp_path / "file").write_bytes(b"x")
    with files.replacing(tmp_path / "sub" / "alive") as temp:
        assert files.sweep(tmp_path) == 1
        assert temp.exists()
    assert names(tmp_path / "sub") == ["alive"]
    assert files.sweep(tmp_path / "missing") == 0
    assert (tmp_path / "file").exists()


def test_a_temporary_swept_before_it_was_locked_is_made_again(tmp_path, monkeypatch):
    lock, swept = files.fcntl.flock, []

    def flock(handle: int, how: int) -> None:
        if not swept:
            swept.extend(tmp_path.glob(".gpujob-tmp-*"))
            swept[0].unlink()
        lock(handle, how)

    monkeypatch.setattr(files.fcntl, "flock", flock)
    files.write(tmp_path / "file", b"data")
    assert (tmp_path / "file").read_bytes() == b"data"
    assert len(swept) == 1


def test_a_folder_removed_before_the_temporary_was_made_is_made_again(tmp_path, monkeypatch):
    make, removals = files.make_folder, []

    def made_and_removed(folder: Path) -> None:
        make(folder)
        if folder.name == "sub" and len(removals) < 3:
            folder.rmdir()
            removals.append(folder)

    monkeypatch.setattr(files, "make_folder", made_and_removed)
    files.write(tmp_path / "sub" / "file", b"data")
    assert (tmp_path / "sub" / "file").read_bytes() == b"data"
    assert len(removals) == 3


def test_a_folder_that_cannot_stay_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "make_folder", lambda folder: None)
    with pytest.raises(FileNotFoundError):
        files.write(tmp_path / "never" / "file", b"data")


def test_a_disk_without_locks_is_written_and_never_swept(tmp_path, monkeypatch):
    def flock(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(files.fcntl, "flock", flock)
    with files.replacing(tmp_path / "file") as temp:
        assert files.sweep(tmp_path) == 0
        temp.write_bytes(b"data")
    assert (tmp_path / "file").read_bytes() == b"data"


@pytest.mark.parametrize("size", [0, 1, (1 << 20) + 1, 3 << 20])
def test_digests_are_blake3(tmp_path, size):
    data, seen = os.urandom(size), []
    (tmp_path / "file").write_bytes(data)
    assert files.digest(tmp_path / "file", seen.append) == blake3(data).hexdigest() == files.digest_bytes(data)
    assert sum(seen) == size


def test_a_tree_is_described_without_links_and_unfinished_writes(tmp_path):
    files.write(tmp_path / "b", b"bb")
    files.write(tmp_path / "a" / "tool", b"#!", mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path / "b")
    (tmp_path / ".gpujob-tmp-dead").write_bytes(b"")
    entries = files.describe_tree(tmp_path)
    assert [(entry.path, entry.size, entry.executable) for entry in entries] == [("a/tool", 2, True), ("b", 2, False)]
    assert files.matches(tmp_path / "b", entries[1])
    assert not files.matches(tmp_path / "a" / "tool", entries[1])
    assert not files.matches(tmp_path / "link", entries[1])
    assert not files.matches(tmp_path / "missing", entries[1])


@pytest.mark.parametrize("name", ESCAPING, ids=range(len(ESCAPING)))
def test_a_name_from_elsewhere_stays_inside(tmp_path, name):
    with pytest.raises(Damaged):
        files.inside(tmp_path, name)


@pytest.mark.parametrize("name", TRAVELLING, ids=range(len(TRAVELLING)))
def test_odd_names_are_names(tmp_path, name):
    assert files.inside(tmp_path, f"sub/{name}") == tmp_path / "sub" / name


@given(st.text(max_size=30))
def test_whatever_the_name_it_stays_inside(name):
    try:
        path = files.inside(Path("/folder"), name)
    except Damaged:
        return
    assert Path(os.path.normpath(path)) == path
    assert path.is_relative_to("/folder")
    assert path != Path("/folder")


def refusing(reader: int, writer: int, count: int) -> int:
    raise OSError(errno.EXDEV, "not between these")


@pytest.mark.parametrize("kernel", [None, refusing, lambda *_: 0], ids=["can", "cannot", "says nothing is there"])
def test_copies_are_whole_whatever_the_kernel_can(tmp_path, monkeypatch, kernel):
    if kernel:
        monkeypatch.setattr(os, "copy_file_range", kernel)
    data = os.urandom((2 << 20) + 7)
    files.write(tmp_path / "source", data, mode=0o755)
    files.copy(tmp_path / "source", tmp_path / "sub" / "target")
    assert (tmp_path / "sub" / "target").read_bytes() == data
    assert (tmp_path / "sub" / "target").stat().st_mode & 0o100


def test_a_copy_that_breaks_off_leaves_nothing(tmp_path, monkeypatch):
    answers = iter([10])

    def breaking(reader: int, writer: int, count: int) -> int:
        for answer in answers:
            return answer
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "copy_file_range", breaking)
    files.write(tmp_path / "source", b"x" * 100)
    with pytest.raises(OSError, match="broken"):
        files.copy(tmp_path / "source", tmp_path / "target")
    assert names(tmp_path) == ["source"]


def test_link_or_copy(tmp_path, monkeypatch):
    files.write(tmp_path / "source", b"x")
    files.link_or_copy(tmp_path / "source", tmp_path / "sub" / "link")
    assert (tmp_path / "sub" / "link").samefile(tmp_path / "source")
    with pytest.raises(FileExistsError):
        files.link_or_copy(tmp_path / "source", tmp_path / "sub" / "link")

    def no_links(source: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, "another disk")

    monkeypatch.setattr(os, "link", no_links)
    files.link_or_copy(tmp_path / "source", tmp_path / "sub" / "copy")
    assert (tmp_path / "sub" / "copy").read_bytes() == b"x"
    assert not (tmp_path / "sub" / "copy").samefile(tmp_path / "source")


def test_removing_a_tree_follows_no_link(tmp_path):
    files.write(tmp_path / "kept" / "file", b"x")
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    for name in ("gone", "link", "missing"):
        files.remove_tree(tmp_path / name)
    assert names(tmp_path) == ["kept"]
    assert names(tmp_path / "kept") == ["file"]
