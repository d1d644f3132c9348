"""Killed before any of its writes, publishing leaves the checkpoint whole and committed, or not there at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpujob.checkpoints import head, lease, prune, publish, restore
from gpujob.core.layout import JobKeys
from gpujob.core.reasons import Reason
from gpujob.store.local import LocalStore
from support.checkpoints import JOB, checkpoint_folder, start, tree
from support.killing import each_kill

pytestmark = pytest.mark.real


def publish_step(root: str, attempt: int, folder: str, step: int) -> None:
    """Go on with the lease an attempt holds already, and publish."""
    held = lease.acquire(LocalStore(Path(root)), JOB, attempt, f"holder-{attempt}", 0)
    publish.publish(held, Path(folder), step, 0.0, keep=2)


def take_lease_and_sweep(root: str, attempt: int) -> None:
    prune.sweep(lease.acquire(LocalStore(Path(root)), JOB, attempt, f"holder-{attempt}", 0))


def finish_with_result(root: str, folder: str) -> None:
    held = lease.acquire(LocalStore(Path(root)), JOB, 1, "holder-1", 0)
    publish.publish_result(held, Path(folder), 9, 0.0)
    lease.finish(held, 10, 1, Reason.DONE)


def test_a_publish_killed_anywhere_leaves_old_or_new(tmp_path: Path) -> None:
    """Three are there, two are kept: the kills land in uploads, in the commit, and in the deletion of the oldest."""
    root = tmp_path / "store"
    store = LocalStore(root)
    held = start(store)
    for step in (1, 2):
        publish.publish(held, checkpoint_folder(tmp_path, step), step, 0.0, keep=2)
    folder = checkpoint_folder(tmp_path, 3)
    seen = set()
    for deaths, _ in enumerate(each_kill(root, publish_step, str(root), 1, str(folder), 3)):
        back = tmp_path / "back" / str(deaths)
        said: list[str] = []
        step = restore.restore(store, JOB, back, say=said.append)
        assert step in (2, 3)
        assert tree(back) == tree(tmp_path / f"checkpoint-{step}")
        assert said == []
        assert len(head.read(store, JOB).checkpoints) == 2
        seen.add(step)
    assert seen == {2, 3}
    assert restore.restore(store, JOB, tmp_path / "end") == 3
    take_lease_and_sweep(str(root), 2)
    left = {info.key.split("/")[3] for info in store.list(JobKeys(JOB).checkpoints)}
    assert left == {"00000002-0001", "00000003-0001"}


def test_a_sweep_killed_anywhere_takes_nothing_that_counts(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = LocalStore(root)
    publish.publish(start(store), checkpoint_folder(tmp_path, 1), 1, 0.0, keep=2)
    for step in (2, 3):
        store.put(f"{JobKeys(JOB).checkpoint(step, 1)}files/optimizer.pt", b"of a killed upload")
    deaths = [
        restore.restore(store, JOB, tmp_path / "back") for _ in each_kill(root, take_lease_and_sweep, str(root), 2)
    ]
    assert set(deaths) == {1}
    assert len(deaths) > 3
    assert {info.key.split("/")[3] for info in store.list(JobKeys(JOB).checkpoints)} == {"00000001-0001"}


def test_an_ending_killed_anywhere_is_booked_once_and_whole(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = LocalStore(root)
    start(store)
    folder = checkpoint_folder(tmp_path, 9)
    for _ in each_kill(root, finish_with_result, str(root), str(folder)):
        now = head.read(store, JOB)
        if now.outcome is Reason.DONE:
            # All is said; only telling the killed process is missing, and asking again is refused.
            break
        assert now.spent_seconds == 0
        if now.result:
            assert restore.fetch_result(store, JOB, tmp_path / now.nonce).step == 9
    now = head.read(store, JOB)
    assert (now.outcome, now.spent_seconds, now.lease) == (Reason.DONE, 10, None)
    restore.fetch_result(store, JOB, tmp_path / "result")
    assert tree(tmp_path / "result") == tree(folder)
