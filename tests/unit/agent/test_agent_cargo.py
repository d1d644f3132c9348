"""Where an attempt takes the bundle from, and that the store has it before anything trains."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpujob import bundle as bundles
from gpujob.agent import cargo
from gpujob.core.errors import Damaged
from gpujob.core.layout import HostPaths, MachinePaths, blob
from gpujob.core.records import Bundle
from gpujob.store.memory import MemoryStore
from support.checkpoints import JOB, start


class Machine:
    """A machine a bundle was sent to, and a store that has nothing of it."""

    def __init__(self, folder: Path) -> None:
        self.store = MemoryStore()
        self.held = start(self.store)
        self.host = MachinePaths(folder / "machine").job(JOB)
        (folder / "code").mkdir()
        (folder / "code" / "run.py").write_text("print('hello')")
        self.packed = bundles.pack({"code": folder / "code"})
        self.said: list[str] = []

    def send(self) -> None:
        for digest, path in self.packed.sources.items():
            target = self.host.machine.cache / blob(digest)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
        self.host.bundle.parent.mkdir(parents=True)
        self.host.bundle.write_bytes(self.packed.bundle.encode())

    def mirror(self, host: HostPaths | None = None) -> Bundle:
        return cargo.mirror(self.held, host or self.host, lambda kind, _: self.said.append(kind), lambda _: None)

    def fetch(self) -> str:
        cargo.fetch(self.held, self.host, "code", self.packed.bundle.parts["code"], lambda _: None)
        return (self.host.part("code") / "run.py").read_text()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_what_was_sent_here_is_in_the_store_afterwards(machine: Machine, tmp_path: Path) -> None:
    machine.send()
    assert machine.mirror() == machine.packed.bundle
    assert machine.said == ["mirroring", "mirrored"]
    assert machine.mirror(HostPaths(tmp_path / "second")) == machine.packed.bundle
    assert machine.said == ["mirroring", "mirrored"], "another machine has nothing to mirror"


def test_without_a_list_anywhere_it_says_so(machine: Machine) -> None:
    with pytest.raises(Damaged, match="neither the store nor this machine"):
        machine.mirror()


def test_a_damaged_cache_never_reaches_the_store(machine: Machine) -> None:
    machine.send()
    for digest in machine.packed.sources:
        (machine.host.machine.cache / blob(digest)).write_bytes(b"something else")
    with pytest.raises(Damaged):
        machine.mirror()
    with pytest.raises(Damaged, match="neither"):
        machine.mirror(HostPaths(Path("/nowhere/at/all")))


def test_a_part_is_laid_out_from_the_cache_alone(machine: Machine) -> None:
    machine.send()
    assert machine.fetch() == "print('hello')"


def test_a_damaged_cache_gives_way_to_the_store(machine: Machine) -> None:
    machine.send()
    machine.mirror()
    for digest in machine.packed.sources:
        path = machine.host.machine.cache / blob(digest)
        path.write_bytes(b"x" * path.stat().st_size)
    assert machine.fetch() == "print('hello')"
