"""Growing files on their way to the store, and what is read from them on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpujob.agent import streams
from gpujob.agent.clock import Clock
from gpujob.agent.progress import Progress
from gpujob.agent.redact import Redactor
from gpujob.agent.streams import Stream
from gpujob.agent.tail import Tail
from gpujob.core.errors import StoreUnavailable
from gpujob.core.layout import AttemptKeys
from gpujob.store.memory import MemoryStore

KEYS = AttemptKeys("jobs/j/attempts/0001/")


class Lossy(MemoryStore):
    """A store whose next `lost` puts arrive, while their answers do not."""

    lost = 0

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        etag = super().put(key, data, if_absent=if_absent, if_match=if_match)
        if self.lost:
            self.lost -= 1
            raise StoreUnavailable("write", key, "no answer")
        return etag


@pytest.fixture
def store() -> Lossy:
    return Lossy()


def stream(store: MemoryStore, path: Path, *secrets: str) -> Stream:
    return Stream(store, KEYS, "metrics", path, Redactor(secrets))


def segments(store: MemoryStore) -> list[bytes]:
    return [store.get(info.key) for info in store.list(KEYS.segments("metrics"))]


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_segments_hold_whole_lines_and_nothing_twice(store: Lossy, tmp_path: Path) -> None:
    path = tmp_path / "metrics"
    shipping = stream(store, path, "secret")
    shipping.ship()
    append(path, b"one\ntw")
    shipping.ship()
    shipping.ship()
    append(path, b"o sec")
    shipping.ship()
    append(path, b"ret\nend")
    shipping.ship()
    assert segments(store) == [b"one\n", b"two ***\n"]
    shipping.ship(all_of_it=True)
    shipping.ship(all_of_it=True)
    assert segments(store) == [b"one\n", b"two ***\n", b"end"]


def test_segments_are_bounded(store: Lossy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LARGEST_SEGMENT", 10)
    path = tmp_path / "metrics"
    append(path, b"abc\n" * 7)
    stream(store, path).ship()
    assert segments(store) == [b"abc\nabc\n"] * 3 + [b"abc\n"]


def test_a_segment_whose_answer_was_lost_stays_as_it_is(store: Lossy, tmp_path: Path) -> None:
    path = tmp_path / "metrics"
    shipping = stream(store, path)
    append(path, b"one\n")
    store.lost = 1
    with pytest.raises(StoreUnavailable):
        shipping.ship()
    append(path, b"two\n")
    shipping.ship()
    assert segments(store) == [b"one\n", b"two\n"], "a reader may have seen the first one"


def test_numbers_go_on_after_what_is_there(store: Lossy, tmp_path: Path) -> None:
    store.put(KEYS.segment("metrics", 7), b"before\n")
    append(tmp_path / "metrics", b"after\n")
    stream(store, tmp_path / "metrics").ship()
    assert store.get(KEYS.segment("metrics", 8)) == b"after\n"


def test_a_file_that_was_begun_anew_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "file"
    tail = Tail(path, 100)
    append(path, b"a long first line\n")
    assert tail.read() == b"a long first line\n"
    path.write_bytes(b"short\n")
    assert tail.read() == b"short\n"


@pytest.mark.parametrize("torn", [False, True])
def test_a_line_without_end_is_dropped_and_the_next_one_read(tmp_path: Path, torn: bool) -> None:
    path = tmp_path / "file"
    tail = Tail(path, 10)
    append(path, b"x" * 35)
    assert tail.read(torn=torn) in (b"", b"x" * 5)
    append(path, b"xx\nnext\n")
    assert b"".join(iter(lambda: tail.read(torn=torn), b"")).endswith(b"next\n")


def test_the_rest_of_a_dropped_line_is_dropped_with_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    tail = Tail(path, 10)
    append(path, b"x" * 35 + b"\n" + b"next\n")
    assert b"".join(iter(tail.read, b"")) == b"next\n"


class Watched:
    def __init__(self, path: Path) -> None:
        self.path, self.now = path, 1.0
        self.progress = Progress(path, Clock(monotonic=lambda: self.now))

    def says(self, *lines: bytes) -> Progress:
        append(self.path, b"".join(lines))
        self.progress.read()
        return self.progress


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "metrics")


def test_progress_is_what_the_last_lines_say(watched: Watched) -> None:
    progress = watched.says(b'{"step": 1, "loss": 2.5, "total_steps": 10}\n', b'{"step": 2, "los')
    assert (progress.step, progress.total_steps, progress.loss, progress.step_at) == (1, 10, 2.5, 1.0)
    watched.now = 2.0
    progress = watched.says(b's": 2}\n{"eval_loss": 3}\n')
    assert (progress.step, progress.loss, progress.step_at, progress.finished) == (2, 2, 2.0, False)
    watched.now = 3.0
    assert watched.says(b'{"step": 2, "loss": 1}\n').step_at == 2.0
    assert watched.says(b'{"step": 10.0}\n').finished


@pytest.mark.parametrize(
    "line",
    [
        b"no json",
        b"",
        b"\xff\xfe",
        b"[1]",
        b"3",
        b'{"step": true}',
        b'{"step": "7"}',
        b'{"step": NaN, "total_steps": Infinity}',
        b'{"step": -1, "total_steps": 0}',
        b'{"step": null}',
        b'{"step": 1e999}',
        b'{"step": 1' + b"0" * 400 + b"}",
        b"[" * 100_000,
    ],
)
def test_what_is_no_progress_is_passed_over(watched: Watched, line: bytes) -> None:
    progress = watched.says(line + b"\n" + b'{"step": 4}\n')
    assert (progress.step, progress.total_steps) == (4, None)


@pytest.mark.parametrize("loss", ["NaN", "Infinity", '"high"', "null"])
def test_a_loss_that_is_no_number_is_none(watched: Watched, loss: str) -> None:
    assert watched.says(b'{"step": 1, "loss": 1.5}\n').loss == 1.5
    assert watched.says(b'{"step": 2, "loss": %s}\n' % loss.encode()).loss is None


def test_a_checkpoint_shows_the_step_and_is_no_report_of_one(watched: Watched) -> None:
    watched.progress.saw_checkpoint(0)
    assert watched.progress.checkpoint_at is None
    watched.progress.saw_checkpoint(5)
    watched.now = 9.0
    watched.progress.saw_checkpoint(5)
    assert (watched.progress.step, watched.progress.step_at, watched.progress.checkpoint_at) == (5, None, 1.0)
