"""Folders become lists of files by content: what is in them, what is refused, and what is remembered."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpujob import files
from gpujob.bundle import app_part, bundle_digest, fetch, inputs_digest, pack, ship
from gpujob.bundle.hashes import HashCache
from gpujob.core.errors import CheckError, Damaged
from gpujob.core.records import Bundle, FileEntry
from support.hostile import STUCK
from support.shipping import Counted, plant, tree

LATER = 10**19
"""A clock (ns) so far ahead that every file has settled."""


def paths(entries: tuple[FileEntry, ...]) -> list[str]:
    return [entry.path for entry in entries]


def test_the_parts_of_a_job(tmp_path: Path) -> None:
    code = plant(tmp_path / "code", {"train.py": b"1", "run.sh": b"2", ".env": b"3", "x.pyc": b"4"}, ("run.sh",))
    model = plant(tmp_path / "model", {"config.json": b"{}", "venv/x": b"5", "x.pyc": b"6", ".git/big": b"7"})
    rows = plant(tmp_path, {"rows.jsonl": b"{}\n"}) / "rows.jsonl"
    moved: list[int] = []
    packed = pack({"code": code, "model": model, "data": rows}, moved.append)
    parts = packed.bundle.parts
    assert {part: paths(entries) for part, entries in parts.items()} == {
        "code": ["run.sh", "train.py"],
        "model": ["config.json", "venv/x", "x.pyc"],
        "data": ["rows.jsonl"],
    }
    assert [entry.executable for entry in parts["code"]] == [True, False]
    assert packed.total_bytes == sum(moved) == 9
    assert packed.selection is not None
    assert [remark.path for remark in packed.selection.left_out] == [".env"]
    for entry in [entry for entries in parts.values() for entry in entries]:
        assert files.digest(packed.sources[entry.blake3]) == entry.blake3


def test_a_secret_in_the_data_is_left_out_and_told(tmp_path: Path) -> None:
    packed = pack({"data": plant(tmp_path / "data", {"rows": b"1", ".env": b"2"})})
    assert paths(packed.bundle.parts["data"]) == ["rows"]
    assert [remark.path for remark in packed.selections["data"].left_out] == [".env"]
    assert packed.selection is None


def test_data_that_would_arrive_with_holes_is_refused(tmp_path: Path) -> None:
    data = plant(tmp_path / "data", {"rows": b"1"})
    (data / "more").symlink_to("/etc/hostname")
    with pytest.raises(CheckError, match="more: a link that leads out of the folder"):
        pack({"data": data})


@pytest.mark.parametrize("name", STUCK)
def test_a_single_file_that_cannot_travel_is_refused(tmp_path: Path, name: str) -> None:
    plant(tmp_path, {name: b""})
    with pytest.raises(CheckError, match="backslash or a control character"):
        pack({"data": tmp_path / name})


@pytest.mark.parametrize("part", ["code", "data"])
def test_a_part_that_is_not_there_is_refused(tmp_path: Path, part: str) -> None:
    with pytest.raises(CheckError, match="nothing"):
        pack({part: tmp_path / "nothing"})


def test_a_snapshot_of_the_hub_s_cache_travels_whole(tmp_path: Path) -> None:
    repo = plant(tmp_path / "models--a--b", {"blobs/123abc": b"weights", "other/x": b"no"})
    snapshot = repo / "snapshots/f00"
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").symlink_to("../../blobs/123abc")
    packed = pack({"model": snapshot})
    assert paths(packed.bundle.parts["model"]) == ["model.safetensors"]
    assert packed.total_bytes == len(b"weights")
    (snapshot / "stray").symlink_to("../../other/x")
    with pytest.raises(CheckError, match="stray"):
        pack({"model": snapshot})
    (snapshot / "stray").unlink()
    (repo / "snapshots").rename(repo / "copies")
    with pytest.raises(CheckError, match="safetensors: a link that leads out"):
        pack({"model": repo / "copies/f00"})


def test_the_same_tree_gives_the_same_digest_wherever_it_lies(tmp_path: Path) -> None:
    content = {"b": b"1", "a/c": b"2"}
    first = pack({"code": plant(tmp_path / "one", content), "data": plant(tmp_path / "two", content)})
    second = pack({"data": plant(tmp_path / "three", content), "code": plant(tmp_path / "four", content)})
    assert first.digest == second.digest == bundle_digest(first.bundle)
    assert pack({"code": plant(tmp_path / "four", {"b": b"3"})}).digest != first.digest


def test_inputs_are_what_a_training_reads() -> None:
    def entry(path: str, blake3: str = "d", executable: bool = False) -> FileEntry:
        return FileEntry(path=path, size=1, blake3=blake3, executable=executable)

    base = Bundle(parts={"data": (entry("a"), entry("b")), "model": (entry("m"),), "code": (entry("c"),)})

    def changed(**parts: tuple[FileEntry, ...]) -> bool:
        return inputs_digest(Bundle(parts=base.parts | parts)) != inputs_digest(base)

    assert not changed(code=(entry("c", "e"),))
    assert not changed(app=(entry("x"),))
    assert not changed(data=(entry("b"), entry("a")))
    assert not changed(data=(entry("a", executable=True), entry("b")))
    assert changed(data=(entry("a"), entry("b", "e")))
    assert changed(data=(entry("a"), entry("c")))
    assert changed(validation=(entry("v"),))
    assert changed(model=())


def test_gpujob_itself_runs_from_its_part(tmp_path: Path) -> None:
    packed = pack({"app": app_part()})
    entries = packed.bundle.parts["app"]
    assert "gpujob/__init__.py" in paths(entries)
    assert all(path.startswith("gpujob/") and "__pycache__" not in path for path in paths(entries))
    store = Counted()
    ship(store, "job", packed)
    fetch(store, entries, tmp_path / "app")
    run = [sys.executable, "-c", "import gpujob.bundle; print(gpujob.bundle.__file__)"]
    env = {"PYTHONPATH": str(tmp_path / "app"), "PYTHONDONTWRITEBYTECODE": "1"}
    said = subprocess.run(run, env=env, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert said.strip() == str(tmp_path / "app/gpujob/bundle/__init__.py")
    arrived = {name: files.digest_bytes(data) for name, data in tree(tmp_path / "app").items()}
    assert arrived == {entry.path: entry.blake3 for entry in entries}


def test_a_file_that_changes_while_it_is_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = plant(tmp_path / "data", {"still": b"1", "growing": b"2"})
    read = files.digest

    def digest(path: Path, progress: object = None) -> str:
        found = read(path)
        if path.name == "growing":
            path.write_bytes(b"longer")
        return found

    monkeypatch.setattr(files, "digest", digest)
    with pytest.raises(Damaged, match="growing: it changed while it was read"):
        pack({"data": data})


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are really read."""
    names: list[str] = []
    read = files.digest

    def digest(path: Path, progress: object = None) -> str:
        names.append(path.name)
        return read(path)

    monkeypatch.setattr(files, "digest", digest)
    return names


def hashed(cache: Path, path: Path, now: int = LATER) -> str:
    hashes = HashCache(cache, now_ns=lambda: now)
    entry = hashes.describe(path, path.name)
    hashes.save()
    return entry.blake3


def test_a_big_file_is_read_once(tmp_path: Path, reads: list[str]) -> None:
    cache, path = tmp_path / "cache.json", plant(tmp_path, {"model": bytes(2 << 20)}) / "model"
    assert hashed(cache, path) == hashed(cache, path)
    assert reads == ["model"]


def test_a_changed_file_is_read_again_even_with_its_old_time(tmp_path: Path, reads: list[str]) -> None:
    cache, path = tmp_path / "cache.json", plant(tmp_path, {"model": bytes(2 << 20)}) / "model"
    first, times = hashed(cache, path), path.stat()
    with path.open("r+b") as file:
        file.write(b"changed in place")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert hashed(cache, path) != first
    assert reads == ["model", "model"]


def test_a_file_written_just_now_is_not_remembered(tmp_path: Path, reads: list[str]) -> None:
    cache, path = tmp_path / "cache.json", plant(tmp_path, {"model": bytes(2 << 20)}) / "model"
    hashed(cache, path, now=path.stat().st_mtime_ns + 1)
    hashed(cache, path)
    assert reads == ["model", "model"]


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b"\xff", b'{"/x": 3}'])
def test_a_cache_that_cannot_be_read_is_an_empty_one(tmp_path: Path, reads: list[str], junk: bytes) -> None:
    cache, path = plant(tmp_path, {"cache.json": junk, "model": bytes(2 << 20)}) / "cache.json", tmp_path / "model"
    hashed(cache, path)
    hashed(cache, path)
    assert reads == ["model"]


def test_pack_uses_the_cache_it_is_given(tmp_path: Path, reads: list[str]) -> None:
    model = plant(tmp_path / "model", {"weights": bytes(2 << 20), "config.json": b"{}"})
    hashed(tmp_path / "cache.json", model / "weights")
    told: list[int] = []
    packed = pack({"model": model}, told.append, cache=tmp_path / "cache.json")
    assert reads == ["weights", "config.json"]
    assert packed.digest == pack({"model": model}).digest
    assert max(told) == 2 << 20
