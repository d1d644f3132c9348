"""Only what the store lacks is sent, and bundle.json is there only when everything in it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpujob.bundle import Packed, Shipped, pack, read, ship
from gpujob.core.errors import AlreadyExists, Damaged, NotFound, StoreUnavailable
from gpujob.core.layout import JobKeys, blob
from support.shipping import Counted, plant

BUNDLE = JobKeys("job").bundle


def code(tmp_path: Path, **content: bytes) -> Packed:
    return pack({"code": plant(tmp_path / "code", content)})


def test_what_is_shipped_can_be_read(tmp_path: Path, store: Counted, way: str) -> None:
    told: list[int] = []
    packed = code(tmp_path, a=b"1", b=b"22", same=b"1", empty=b"")
    assert ship(store, "job", packed, told.append) == Shipped(3, 3, 3, 3)
    assert read(store, "job") == packed.bundle
    assert sum(told) == 3
    assert all(store.get(blob(digest)) == path.read_bytes() for digest, path in packed.sources.items())


def test_a_second_ship_moves_only_what_changed(tmp_path: Path, store: Counted, way: str) -> None:
    ship(store, "job", code(tmp_path, **{f"f{number}": bytes([number]) * 1000 for number in range(50)}))
    store.forget()
    packed = code(tmp_path, f7=b"changed")
    assert ship(store, "job-2", packed) == Shipped(7, 1, 49_007, 50)
    (changed,) = (entry for entry in packed.bundle.parts["code"] if entry.path == "f7")
    assert set(store.sent) == {blob(changed.blake3), JobKeys("job-2").bundle}
    assert store.fetched == []


def test_shipping_again_is_harmless(tmp_path: Path, store: Counted) -> None:
    packed = code(tmp_path, a=b"1")
    ship(store, "job", packed)
    assert ship(store, "job", packed) == Shipped(0, 0, 1, 1)


def test_a_blob_of_another_size_is_replaced(tmp_path: Path, store: Counted) -> None:
    packed = code(tmp_path, a=b"whole")
    (digest,) = packed.sources
    store.put(blob(digest), b"who")
    assert ship(store, "job", packed).sent_files == 1
    assert store.get(blob(digest)) == b"whole"


@pytest.mark.parametrize("conditional", [True, False])
def test_another_bundle_under_the_same_job_is_an_error(tmp_path: Path, conditional: bool) -> None:
    store = Counted(conditional=conditional)
    first = code(tmp_path, a=b"1")
    ship(store, "job", first)
    with pytest.raises(AlreadyExists, match="has another one"):
        ship(store, "job", code(tmp_path, a=b"2"))
    assert read(store, "job") == first.bundle


def test_a_store_without_conditions_will_do(tmp_path: Path) -> None:
    store, packed = Counted(conditional=False), code(tmp_path, a=b"1")
    ship(store, "job", packed)
    assert ship(store, "job", packed).sent_files == 0
    assert read(store, "job") == packed.bundle


@pytest.mark.parametrize("won", [True, False])
def test_a_lost_answer_is_looked_up(tmp_path: Path, store: Counted, monkeypatch: pytest.MonkeyPatch, won: bool) -> None:
    packed, put = code(tmp_path, a=b"1"), store.put

    def lossy(key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        if won or key != BUNDLE:
            put(key, data, if_absent=if_absent, if_match=if_match)
        if key == BUNDLE:
            raise StoreUnavailable("write", key, "no answer")
        return ""

    monkeypatch.setattr(store, "put", lossy)
    if won:
        ship(store, "job", packed)
        assert read(store, "job") == packed.bundle
    else:
        with pytest.raises(StoreUnavailable):
            ship(store, "job", packed)


@pytest.mark.parametrize("change", ["other bytes", "gone"])
def test_a_file_changed_after_packing_is_named_and_not_kept(
    tmp_path: Path, store: Counted, way: str, change: str
) -> None:
    packed = code(tmp_path, a=b"before", b=b"stays")
    (digest,) = (entry.blake3 for entry in packed.bundle.parts["code"] if entry.path == "a")
    path = tmp_path / "code/a"
    if change == "gone":
        path.unlink()
    else:
        path.write_bytes(b"after!")
    with pytest.raises(Damaged, match="code/a"):
        ship(store, "job", packed)
    with pytest.raises(NotFound):
        store.head(blob(digest))
    with pytest.raises(NotFound):
        read(store, "job")


def test_a_bundle_that_cannot_be_read_is_damaged(store: Counted) -> None:
    store.put(BUNDLE, b'{"parts": 3}')
    with pytest.raises(Damaged):
        read(store, "job")
