from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpujob.checkpoints import head, prune, publish, restore
from gpujob.core.errors import Damaged, Fenced, NotFound
from gpujob.core.layout import FILES, MANIFEST, JobKeys
from gpujob.store.memory import MemoryStore
from support.checkpoints import JOB, TRAINER_FILES, checkpoint_folder, start, tree


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def keys(store: MemoryStore) -> list[str]:
    return [info.key for info in store.list(JobKeys(JOB).checkpoints)]


def test_what_is_published_comes_back_byte_for_byte(store: MemoryStore, tmp_path: Path) -> None:
    folder = checkpoint_folder(tmp_path, 10)
    (folder / "sub").mkdir()
    (folder / "sub" / "ünïcode #1.bin").write_bytes(b"x" * 5000)
    ref = publish.publish(start(store), folder, 10, made_at=7.0, keep=3)
    assert head.read(store, JOB).newest == ref
    assert ref.bytes == sum(len(data) for data in tree(folder).values())
    assert restore.restore(store, JOB, tmp_path / "back") == 10
    assert tree(tmp_path / "back") == tree(folder)


def test_nothing_published_is_nothing_to_restore(store: MemoryStore, tmp_path: Path) -> None:
    start(store)
    assert restore.restore(store, JOB, tmp_path / "back") is None


def test_only_the_newest_are_kept_and_the_rest_is_gone(store: MemoryStore, tmp_path: Path) -> None:
    held = start(store)
    for step in (1, 2, 3, 4, 5):
        publish.publish(held, checkpoint_folder(tmp_path, step), step, 0, keep=3)
    assert [ref.step for ref in head.read(store, JOB).checkpoints] == [5, 4, 3]
    assert {key.split("/")[3] for key in keys(store)} == {"00000005-0001", "00000004-0001", "00000003-0001"}


def test_publishing_the_same_step_again_changes_nothing(store: MemoryStore, tmp_path: Path) -> None:
    held = start(store)
    folder = checkpoint_folder(tmp_path, 4)
    assert publish.publish(held, folder, 4, 1.0, 3).digest == publish.publish(held, folder, 4, 2.0, 3).digest
    assert len(head.read(store, JOB).checkpoints) == 1


def test_a_superseded_attempt_commits_nothing(store: MemoryStore, tmp_path: Path) -> None:
    stale = start(store, 1)
    start(store, 2)
    with pytest.raises(Fenced):
        publish.publish(stale, checkpoint_folder(tmp_path, 9), 9, 0, 3)
    with pytest.raises(Fenced):
        publish.publish_result(stale, checkpoint_folder(tmp_path / "r", 9), 9, 0)
    assert head.read(store, JOB).checkpoints == ()


def test_an_attempt_superseded_during_its_upload_commits_nothing(store: MemoryStore, tmp_path: Path) -> None:
    stale = start(store, 1)
    folder = checkpoint_folder(tmp_path, 9)

    def take_over(moved: int) -> None:
        if head.read(store, JOB).attempt == 1:
            start(store, 2)

    with pytest.raises(Fenced):
        publish.publish(stale, folder, 9, 0, 3, progress=take_over)
    assert head.read(store, JOB).checkpoints == ()


def test_a_file_that_changes_while_it_is_read_is_never_committed(store: MemoryStore, tmp_path: Path) -> None:
    folder = checkpoint_folder(tmp_path, 9)

    def meddle(moved: int) -> None:
        (folder / "optimizer.pt").write_bytes(b"other")

    with pytest.raises(Damaged, match=r"optimizer\.pt"):
        publish.publish(start(store), folder, 9, 0, 3, progress=meddle)
    assert head.read(store, JOB).checkpoints == ()


def test_a_file_whose_name_cannot_travel_is_named(store: MemoryStore, tmp_path: Path) -> None:
    folder = checkpoint_folder(tmp_path, 9)
    (folder / "two\nlines").touch()
    with pytest.raises(Damaged, match="two"):
        publish.publish(start(store), folder, 9, 0, 3)
    assert head.read(store, JOB).checkpoints == ()


DAMAGE: dict[str, Callable[[bytes, bytes], bytes | None]] = {
    "deleted": lambda data, other: None,
    "zero": lambda data, other: b"",
    "half": lambda data, other: data[: len(data) // 2],
    "bit flipped": lambda data, other: bytes([data[0] ^ 1]) + data[1:],
    "of another checkpoint": lambda data, other: other,
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", [*(f"{FILES}{name}" for name in TRAINER_FILES if name != "COMPLETE"), MANIFEST])
def test_every_damage_is_passed_over_out_loud(store: MemoryStore, tmp_path: Path, name: str, damage: str) -> None:
    held = start(store)
    for step in (5, 10):
        publish.publish(held, checkpoint_folder(tmp_path, step), step, 0, keep=3)
    key = f"{JobKeys(JOB).checkpoint(10, 1)}{name}"
    broken = DAMAGE[damage](store.get(key), store.get(f"{JobKeys(JOB).checkpoint(5, 1)}{name}"))
    store.delete(key) if broken is None else store.put(key, broken)
    said: list[str] = []
    assert restore.restore(store, JOB, tmp_path / "back", say=said.append) == 5
    assert tree(tmp_path / "back") == tree(tmp_path / "checkpoint-5")
    assert len(said) == 1
    assert "step 10" in said[0]


def test_when_all_are_damaged_it_never_starts_from_zero_in_silence(store: MemoryStore, tmp_path: Path) -> None:
    publish.publish(start(store), checkpoint_folder(tmp_path, 5), 5, 0, 3)
    store.delete(f"{JobKeys(JOB).checkpoint(5, 1)}{MANIFEST}")
    with pytest.raises(Damaged, match="steps 5"):
        restore.restore(store, JOB, tmp_path / "back")


def test_this_machines_files_are_used_and_only_the_right_ones(store: MemoryStore, tmp_path: Path) -> None:
    folder = checkpoint_folder(tmp_path / "local [v2]", 10)
    publish.publish(start(store), folder, 10, 0, 3)
    (folder / "optimizer.pt").write_bytes(b"z" * 300)
    fetched: list[str] = []
    get_file = store.get_file

    def watch(key: str, path: Path, progress: object = None) -> None:
        fetched.append(key.rsplit("/", 1)[1])
        get_file(key, path)

    store.get_file = watch  # type: ignore[method-assign]
    assert restore.restore(store, JOB, tmp_path / "back", local=[tmp_path / "local [v2]"]) == 10
    assert fetched == ["optimizer.pt"]
    assert (tmp_path / "back" / "optimizer.pt").read_bytes() != b"z" * 300


@pytest.mark.parametrize("name", ["../out", "/etc/out", "a/../../out", "a\\b", "a\nb", ".", ""])
def test_a_hostile_manifest_cannot_leave_the_folder(store: MemoryStore, tmp_path: Path, name: str) -> None:
    held = start(store)
    publish.publish(held, checkpoint_folder(tmp_path, 5), 5, 0, 3)
    ref = head.read(store, JOB).checkpoints[0]
    key = f"{JobKeys(JOB).checkpoint(5, 1)}{MANIFEST}"
    manifest = restore.Manifest.decode(store.get(key))
    bad = manifest.model_copy(update={"files": (manifest.files[0].model_copy(update={"path": name}),)}).encode()
    store.put(key, bad)
    forged = ref.model_copy(update={"digest": restore.files.digest_bytes(bad)})
    head.update(store, JOB, lambda old: old.model_copy(update={"checkpoints": (forged,)}))
    before = set(tmp_path.iterdir())
    with pytest.raises(Damaged):
        restore.restore(store, JOB, tmp_path / "deep" / "back")
    assert set(tmp_path.iterdir()) - before <= {tmp_path / "deep"}


def test_the_result_comes_back_and_is_not_there_before(store: MemoryStore, tmp_path: Path) -> None:
    held = start(store)
    with pytest.raises(NotFound):
        restore.fetch_result(store, JOB, tmp_path / "early")
    publish.publish_result(held, checkpoint_folder(tmp_path, 20), 20, 0)
    assert restore.fetch_result(store, JOB, tmp_path / "back").step == 20
    assert tree(tmp_path / "back") == tree(tmp_path / "checkpoint-20")


def test_the_sweep_takes_what_killed_attempts_left_and_nothing_else(store: MemoryStore, tmp_path: Path) -> None:
    first = start(store, 1)
    publish.publish(first, checkpoint_folder(tmp_path, 5), 5, 0, 3)
    orphan = f"{JobKeys(JOB).checkpoint(10, 1)}{FILES}optimizer.pt"
    store.put(orphan, b"half an upload")
    second = start(store, 2)
    mine = f"{JobKeys(JOB).checkpoint(10, 2)}{FILES}optimizer.pt"
    store.put(mine, b"being uploaded now")
    assert prune.sweep(second) == 1
    assert orphan not in keys(store)
    assert mine in keys(store)
    assert restore.restore(store, JOB, tmp_path / "back") == 5
