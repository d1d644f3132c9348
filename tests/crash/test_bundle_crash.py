"""Killed at any write, ship and fetch leave the old state or the new one, and run through the next time."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from gpujob import files
from gpujob.bundle import Packed, fetch, pack, read, ship
from gpujob.core.errors import NotFound
from gpujob.core.layout import blob
from gpujob.store.local import LocalStore
from gpujob.store.protocol import Store
from support.killing import each_kill
from support.shipping import fetch_code, plant, ship_code, tree

CONTENT = {"train.py": b"print(1)\n", "data/rows.jsonl": b"{}\n" * 100, "empty": b"", "weights": bytes(3000)}
OLD = {"train.py": b"old", "data": b"a file where a folder will be", "gone/too": b"", "weights": bytes(3000)}


@pytest.mark.parametrize("limit", [1 << 20, 100], ids=["small files", "big files"])
def test_a_killed_ship(tmp_path: Path, limit: int) -> None:
    plant(tmp_path / "code", CONTENT)
    packed, kills = pack({"code": tmp_path / "code"}), 0
    for _ in each_kill(tmp_path / "store", ship_code, tmp_path, limit):
        kills += 1
        store = LocalStore(tmp_path / "store")
        with suppress(NotFound):
            assert read(store, "job") == packed.bundle
            assert _blobs_are_whole(store, packed)
        ship(store, "job", packed)
        assert read(store, "job") == packed.bundle
        assert _blobs_are_whole(store, packed)
        files.remove_tree(tmp_path / "store")
    assert kills > 3 * len(CONTENT)


def _blobs_are_whole(store: Store, packed: Packed) -> bool:
    with suppress(NotFound):
        return all(files.digest_bytes(store.get(blob(digest))) == digest for digest in packed.sources)
    return False


@pytest.mark.parametrize("limit", [1 << 20, 100], ids=["small files", "big files"])
def test_a_killed_fetch(tmp_path: Path, limit: int) -> None:
    store, target = LocalStore(tmp_path / "store"), tmp_path / "target"
    packed = pack({"code": plant(tmp_path / "code", CONTENT)})
    ship(store, "job", packed)
    plant(target, OLD)
    kills = 0
    for _ in each_kill(target, fetch_code, tmp_path, limit):
        kills += 1
        for name, data in tree(target).items():
            whole = data in (OLD.get(name), CONTENT.get(name))
            assert whole or files.is_temp(target / name), name
        again = tmp_path / "again"
        plant(again, tree(target))
        fetch(store, packed.bundle.parts["code"], again)
        assert tree(again) == CONTENT
        files.remove_tree(again)
        files.remove_tree(target)
        plant(target, OLD)
    assert kills > 3 * len(CONTENT)
    assert tree(target) == CONTENT
