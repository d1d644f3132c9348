"""Which checkpoint is sent when; real folders, a store that only remembers, and uploads held open by the test."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gpujob.agent import complete
from gpujob.agent.clock import Clock
from gpujob.agent.sync import Durable, Sync
from gpujob.core.errors import Fenced, StoreUnavailable
from gpujob.store.protocol import Progress
from support.checkpoints import checkpoint_folder, tree
from support.desk import until


class Uploads:
    """Remembers what was published; holds uploads while `gate` is closed; fails with what lies in `failures`."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.content: dict[int, dict[str, bytes]] = {}
        self.failures: list[Exception] = []
        self.gate, self.started = threading.Event(), threading.Event()
        self.gate.set()
        self.running = 0

    def __call__(self, folder: Path, step: int, made_at: float, progress: Progress) -> None:
        self.running += 1
        assert self.running == 1, "one upload at a time"
        self.started.set()
        assert self.gate.wait(30)
        self.running -= 1
        if self.failures:
            raise self.failures.pop(0)
        self.steps.append(step)
        self.content[step] = tree(folder)


class Bench:
    """A sync over folders of its own."""

    def __init__(self, folder: Path, durable: int = 0) -> None:
        self.made, self.staging = folder / "checkpoints", folder / "staging"
        self.made.mkdir()
        self.uploads, self.now, self.woken = Uploads(), 0.0, threading.Event()
        clock = Clock(now=lambda: self.now, monotonic=lambda: self.now)
        self.sync = Sync(
            self.made, self.staging, Durable(durable), self.uploads, clock=clock, wake=self.woken.set, pause=5.0
        )

    def settle(self) -> None:
        """Look twice, as two ticks do, and wait for the upload that may follow."""
        self.sync.tick()
        self.sync.tick()
        self.land()

    def land(self) -> None:
        self.uploads.gate.set()
        until(lambda: self.sync._work is None or self.sync._work.is_done(), "the upload")
        self.sync.tick()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_whole_checkpoint_is_sent_once_and_byte_by_byte(bench: Bench) -> None:
    folder = checkpoint_folder(bench.made, 10)
    bench.settle()
    bench.settle()
    assert bench.uploads.steps == [10]
    assert bench.uploads.content[10] == tree(folder)
    assert bench.sync.durable == Durable(10, (folder / "COMPLETE").stat().st_mtime_ns / 1e9)
    assert bench.woken.is_set()
    assert not any(bench.staging.iterdir())


def test_a_folder_that_still_changes_is_left_alone(bench: Bench) -> None:
    folder = checkpoint_folder(bench.made, 10)
    for number in range(5):
        bench.sync.tick()
        assert bench.sync._work is None
        (folder / "late").write_bytes(b"x" * number)
    bench.settle()
    assert bench.uploads.steps == [10]


@pytest.mark.parametrize("durable", [10, 11])
def test_nothing_at_or_below_the_durable_step_is_sent(tmp_path: Path, durable: int) -> None:
    bench = Bench(tmp_path, durable)
    checkpoint_folder(bench.made, 10)
    bench.settle()
    assert bench.uploads.steps == []


def test_what_is_overtaken_during_an_upload_is_skipped(bench: Bench) -> None:
    checkpoint_folder(bench.made, 10)
    bench.uploads.gate.clear()
    bench.sync.tick()
    bench.sync.tick()
    assert bench.uploads.started.wait(30)
    for step in (20, 30):
        checkpoint_folder(bench.made, step)
        assert bench.sync.tick(), "something is under way"
    bench.land()
    bench.settle()
    assert bench.uploads.steps == [10, 30]


def test_the_programs_own_cleaning_up_cannot_pull_files_away(bench: Bench) -> None:
    folder = checkpoint_folder(bench.made, 10)
    content = tree(folder)
    bench.uploads.gate.clear()
    bench.sync.tick()
    bench.sync.tick()
    assert bench.uploads.started.wait(30)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    bench.land()
    assert bench.uploads.content[10] == content


@pytest.mark.parametrize("change", [lambda path: path.unlink(), lambda path: path.write_bytes(b"other")])
def test_a_folder_that_changes_while_it_is_linked_is_forgotten(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    folder = checkpoint_folder(bench.made, 10)
    bench.sync.tick()
    found = [*complete.find(bench.made, 0)]
    change(folder / "optimizer.pt")
    monkeypatch.setattr(complete, "find", lambda parent, above: found)
    bench.sync.tick()
    bench.land()
    assert bench.uploads.steps == []
    assert bench.sync.failure is None


def test_a_store_that_is_away_is_tried_again_after_a_pause(bench: Bench) -> None:
    checkpoint_folder(bench.made, 10)
    bench.uploads.failures = [StoreUnavailable("upload", "it", "away")] * 2
    bench.settle()
    assert isinstance(bench.sync.failure, StoreUnavailable)
    assert bench.sync.failing_since == 0.0
    bench.now = 4.9
    bench.settle()
    assert len(bench.uploads.failures) == 1, "not before the pause is over"
    bench.now = 5.0
    bench.settle()
    assert (bench.sync.failing_since, bench.uploads.steps) == (0.0, [])
    bench.now = 10.0
    bench.settle()
    assert (bench.sync.failing_since, bench.sync.failure, bench.uploads.steps) == (None, None, [10])


def test_fenced_is_final(bench: Bench) -> None:
    checkpoint_folder(bench.made, 10)
    bench.uploads.failures = [Fenced("go on with", "it", "taken over")]
    bench.settle()
    checkpoint_folder(bench.made, 20)
    bench.settle()
    assert isinstance(bench.sync.fenced, Fenced)
    assert bench.uploads.steps == []


def test_once_nobody_writes_one_look_is_enough(bench: Bench) -> None:
    checkpoint_folder(bench.made, 10)
    assert bench.sync.tick(settled=True)
    bench.land()
    assert bench.uploads.steps == [10]
    assert not bench.sync.tick(settled=True)


def find(parent: Path) -> list[int]:
    return [found.step for found in complete.find(parent, 0)]


def test_only_whole_folders_with_a_step_count(tmp_path: Path) -> None:
    for name, files in {
        "step-5": {"COMPLETE": ""},
        "checkpoint-7": {"trainer_state.json": '{"loss": NaN}'},
        "checkpoint-8": {"trainer_state.json": '{"loss":'},
        "checkpoint-9": {"COMPLETE": "", "checkpoint-is-incomplete.txt": ""},
        "checkpoint-10": {"model.safetensors": ""},
        "checkpoint-11": {"trainer_state.json": "[]"},
        "12": {"COMPLETE": ""},
        "best": {"COMPLETE": ""},
        "tmp-checkpoint-13-": {"COMPLETE": ""},
    }.items():
        (tmp_path / name).mkdir()
        for file, content in files.items():
            (tmp_path / name / file).write_text(content)
    (tmp_path / "checkpoint-99").write_text("a file")
    (tmp_path / "checkpoint-98").symlink_to(tmp_path / "12")
    assert find(tmp_path) == [12, 7, 5]
    assert find(tmp_path / "missing") == []
