"""A part arrives whole or not at all, whatever the list, the store or the folder holds."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpujob import files
from gpujob.bundle import fetch, pack, ship, unpacking
from gpujob.core.errors import Damaged, GpujobError, HostError
from gpujob.core.layout import blob
from gpujob.core.records import FileEntry
from support.hostile import ESCAPING, TRAVELLING
from support.shipping import Counted, plant, tree

names = st.lists(st.sampled_from([*TRAVELLING[:16], "a", "b", "c"]), min_size=1, max_size=3).map("/".join)
contents = st.binary(max_size=20)


def shipped(store: Counted, root: Path, content: dict[str, bytes], *executable: str) -> tuple[FileEntry, ...]:
    packed = pack({"data": plant(root, content, executable)})
    ship(store, "job", packed)
    return packed.bundle.parts["data"]


def listed(store: Counted, content: dict[str, bytes]) -> tuple[FileEntry, ...]:
    """List files of any name, as no honest client would."""
    for data in content.values():
        store.put(blob(files.digest_bytes(data)), data)
    return tuple(FileEntry(path=n, size=len(d), blake3=files.digest_bytes(d)) for n, d in content.items())


def _settle(content: dict[str, bytes]) -> dict[str, bytes]:
    """Drop the names that are folders of others."""
    return {name: data for name, data in content.items() if not any(other.startswith(f"{name}/") for other in content)}


@settings(max_examples=40, deadline=None)
@given(before=st.dictionaries(names, contents, max_size=6), after=st.dictionaries(names, contents, max_size=6))
def test_a_folder_becomes_the_part_whatever_it_held(before: dict[str, bytes], after: dict[str, bytes]) -> None:
    before, after = _settle(before), _settle(after)
    with tempfile.TemporaryDirectory() as made:
        tmp_path = Path(made)
        store, target = Counted(), plant(tmp_path / "target", before)
        entries = shipped(store, tmp_path / "source", after)
        fetch(store, entries, target)
        assert tree(target) == after
        store.forget()
        fetch(store, entries, target)
        assert (tree(target), store.fetched) == (after, [])


def test_hostile_names_come_out_as_they_went_in(tmp_path: Path, store: Counted) -> None:
    content = {name: name.encode() for name in TRAVELLING}
    entries = shipped(store, tmp_path / "source", content)
    fetch(store, entries, tmp_path / "target")
    assert tree(tmp_path / "target") == content


def test_a_single_file_keeps_its_name(tmp_path: Path, store: Counted, hostile_name: str) -> None:
    packed = pack({"data": plant(tmp_path / "source", {hostile_name: b"rows"}) / hostile_name})
    ship(store, "job", packed)
    fetch(store, packed.bundle.parts["data"], tmp_path / "target")
    assert tree(tmp_path / "target") == {hostile_name: b"rows"}


def test_the_executable_bit_arrives_and_is_set_right(tmp_path: Path, store: Counted, way: str) -> None:
    entries = shipped(store, tmp_path / "source", {"run": b"1", "read": b"2"}, "run")
    target = tmp_path / "target"
    for _ in range(2):
        fetch(store, entries, target)
        assert [os.access(target / name, os.X_OK) for name in ("run", "read")] == [True, False]
        (target / "run").chmod(0o644)
        (target / "read").chmod(0o755)


def test_progress_adds_up(tmp_path: Path, store: Counted, way: str) -> None:
    told: list[int] = []
    entries = shipped(store, tmp_path / "source", {"a": b"1", "b": b"22"})
    fetch(store, entries, tmp_path / "target", progress=told.append)
    assert sum(told) == 3


@pytest.mark.parametrize("name", ESCAPING)
def test_a_name_that_would_leave_is_refused(tmp_path: Path, store: Counted, name: str) -> None:
    target = plant(tmp_path / "in/target", {"before": b""})
    everything = tree(tmp_path / "in")
    with pytest.raises(Damaged):
        fetch(store, listed(store, {name: b"x"}), target)
    assert tree(tmp_path / "in") == everything


def test_a_list_no_folder_can_hold_is_refused(tmp_path: Path, store: Counted) -> None:
    (one,) = listed(store, {"a": b"1"})
    for entries in [(one, one), listed(store, {"a": b"1", "a/b": b"2"}), listed(store, {"x/y/z": b"1", "x": b"2"})]:
        with pytest.raises(Damaged):
            fetch(store, entries, tmp_path / "target")
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("digest", ["", "../../jobs/job/head.json", "A" * 64, "a" * 63, "a" * 64 + "\n"])
def test_a_digest_that_is_none_is_refused(tmp_path: Path, store: Counted, digest: str) -> None:
    with pytest.raises(Damaged, match="digest"):
        fetch(store, [FileEntry(path="a", size=1, blake3=digest)], tmp_path / "target")


def test_links_in_the_folder_are_not_followed(tmp_path: Path, store: Counted) -> None:
    outside = plant(tmp_path / "outside", {"file": b"mine", "sub/x": b"mine"})
    target = plant(tmp_path / "target", {"deep/kept": b"1"})
    (target / "folder").symlink_to(outside)
    (target / "deep/folder").symlink_to(outside / "sub")
    (target / "file").symlink_to(outside / "file")
    content = {"folder/file": b"new", "deep/folder/x": b"new", "file": b"new", "deep/kept": b"1"}
    fetch(store, shipped(store, tmp_path / "source", content), target)
    assert tree(target) == content
    assert tree(outside) == {"file": b"mine", "sub/x": b"mine"}


@pytest.mark.parametrize("place", ["link", "file"])
def test_the_folder_itself_may_be_something_else(tmp_path: Path, store: Counted, place: str) -> None:
    outside, target = plant(tmp_path / "outside", {"x": b"mine"}), tmp_path / "target"
    target.symlink_to(outside) if place == "link" else target.write_bytes(b"")
    fetch(store, shipped(store, tmp_path / "source", {"x": b"new"}), target)
    assert (tree(target), tree(outside)) == ({"x": b"new"}, {"x": b"mine"})


def test_what_is_extra_goes(tmp_path: Path, store: Counted) -> None:
    target = plant(tmp_path / "target", {"old": b"", "dir/old": b"", "a/b": b"", ".gpujob-tmp-1": b""})
    os.mkfifo(target / "pipe")
    (target / "empty").mkdir()
    fetch(store, shipped(store, tmp_path / "source", {"a": b"1", "dir/new": b"2"}), target)
    assert tree(target) == {"a": b"1", "dir/new": b"2"}
    assert sorted(path.name for path in target.iterdir()) == ["a", "dir"]


def test_what_is_right_is_kept_and_the_rest_fetched(tmp_path: Path, store: Counted) -> None:
    content = {"same": b"1", "changed": b"22", "missing": b"333"}
    entries = shipped(store, tmp_path / "source", content)
    target = plant(tmp_path / "target", {"same": b"1", "changed": b"xx"})
    inode = (target / "same").stat().st_ino
    store.forget()
    fetch(store, entries, target)
    assert tree(target) == content
    assert (target / "same").stat().st_ino == inode
    assert sorted(store.fetched) == sorted(blob(files.digest_bytes(content[name])) for name in ("changed", "missing"))


@pytest.mark.parametrize("lies", [b"12x", b"1", b""])
def test_bytes_of_another_digest_are_named_and_not_kept(tmp_path: Path, store: Counted, way: str, lies: bytes) -> None:
    entries = shipped(store, tmp_path / "source", {"a": b"123", "b": b"4"})
    store.put(blob(files.digest_bytes(b"123")), lies)
    with pytest.raises(Damaged, match="unpack a:"):
        fetch(store, entries, tmp_path / "target")
    assert set(tree(tmp_path / "target")) <= {"b"}


def test_a_missing_blob_is_named_before_anything_is_fetched(tmp_path: Path, store: Counted) -> None:
    entries = shipped(store, tmp_path / "source", {"a": b"123", "b": b"4"})
    store.delete(blob(files.digest_bytes(b"123")))
    with pytest.raises(Damaged, match="unpack a: its content is not in the store"):
        fetch(store, entries, tmp_path / "target")
    assert store.fetched == []


def test_a_size_that_is_a_lie_costs_nothing(tmp_path: Path, store: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    (entry,) = listed(store, {"a": b"x"})
    huge = entry.model_copy(update={"size": 10**18})
    with pytest.raises(HostError, match="rent a machine with a bigger disk"):
        fetch(store, [huge], tmp_path / "target")
    monkeypatch.setattr(unpacking, "_check_space", lambda folder, missing: None)
    with pytest.raises(Damaged, match="its content has 1 bytes there"):
        fetch(store, [huge], tmp_path / "target")
    assert store.fetched == []


def test_a_disk_that_fails_is_a_host_error(tmp_path: Path, store: Counted) -> None:
    with pytest.raises(HostError, match="name too long"):
        fetch(store, listed(store, {"n" * 300: b"x"}), tmp_path / "target")


def test_local_bytes_are_copied_instead_of_downloaded(tmp_path: Path, store: Counted) -> None:
    content = {"a": b"11", "b": b"22", "c": b"33", "d": b"44"}
    entries = shipped(store, tmp_path / "source", content, "b")
    here = [
        plant(tmp_path / "here", {"x/any name": b"11", "decoy": b"zz"}),
        plant(tmp_path, {"single": b"22"}) / "single",
    ]
    (tmp_path / "here/link").symlink_to(tmp_path / "source/c")
    store.forget()
    fetch(store, entries, tmp_path / "target", [*here, tmp_path / "not there"])
    assert tree(tmp_path / "target") == content
    assert os.access(tmp_path / "target/b", os.X_OK)
    assert (tmp_path / "target/a").stat().st_nlink == 1
    assert sorted(store.fetched) == sorted(blob(files.digest_bytes(content[name])) for name in ("c", "d"))


def test_a_local_file_that_changes_meanwhile_is_downloaded(
    tmp_path: Path, store: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = shipped(store, tmp_path / "source", {"a": b"11"})
    here, index = plant(tmp_path / "here", {"a": b"11"}), unpacking._contents

    def contents(*args: object) -> object:
        found = index(*args)  # type: ignore[arg-type]
        (here / "a").write_bytes(b"zz")
        return found

    monkeypatch.setattr(unpacking, "_contents", contents)
    fetch(store, entries, tmp_path / "target", [here])
    assert tree(tmp_path / "target") == {"a": b"11"}


def test_every_error_is_one_a_person_can_act_on(tmp_path: Path, store: Counted) -> None:
    (entry,) = listed(store, {"a": b"x"})
    store.put(blob(entry.blake3), b"y")
    with pytest.raises(GpujobError) as caught:
        fetch(store, [entry], tmp_path / "target")
    assert blob(entry.blake3) in caught.value.hint
