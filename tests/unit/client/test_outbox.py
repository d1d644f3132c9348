"""What a machine has to be brought: everything, until the store has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpujob import bundle
from gpujob.client import outbox
from gpujob.core.errors import Damaged
from gpujob.core.layout import HomePaths
from gpujob.hosts.protocol import Rental
from gpujob.store.memory import MemoryStore
from support.client import JOB_ID, make_plan

RENTAL = Rental(ref="box (1234)", root="/root/.gpujob/jobs/x")


@pytest.fixture
def packed(tmp_path: Path) -> bundle.Packed:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "run.py").write_text("print('hello')")
    (tmp_path / "gpujob").mkdir()
    (tmp_path / "gpujob" / "__init__.py").write_text("old = True\n")
    return bundle.pack({"code": tmp_path / "code", "app": tmp_path / "gpujob"})


def test_all_of_it_goes_until_the_store_has_it(tmp_path: Path, packed: bundle.Packed) -> None:
    home, store, plan = HomePaths(tmp_path / "home"), MemoryStore(), make_plan()
    outbox.save(home, JOB_ID, packed)
    assert (home.outbox(JOB_ID).stat().st_mode & 0o777) == 0o600
    first = outbox.cargo(home, plan, store, RENTAL)
    assert (first.bundle, dict(first.sources)) == (packed.bundle, dict(packed.sources))
    bundle.ship(store, JOB_ID, packed)
    second = outbox.cargo(home, plan, store, RENTAL)
    assert second.bundle is None
    assert second.app is not None
    assert (second.app / "gpujob" / "__init__.py").read_text() == "old = True\n", "the job's own version travels"
    assert not home.outbox(JOB_ID).exists()


def test_files_that_are_nowhere_are_damage(tmp_path: Path) -> None:
    home = HomePaths(tmp_path / "home")
    with pytest.raises(Damaged, match="neither the store nor this computer"):
        outbox.cargo(home, make_plan(), MemoryStore(), RENTAL)
    home.outbox(JOB_ID).parent.mkdir(parents=True)
    home.outbox(JOB_ID).write_text("nonsense")
    with pytest.raises(Damaged, match="not a list"):
        outbox.cargo(home, make_plan(), MemoryStore(), RENTAL)
