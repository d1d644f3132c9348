"""Reading a stream as it grows."""

from __future__ import annotations

from gpujob.cli.tail import Tail
from gpujob.core.layout import JobKeys
from gpujob.store.memory import MemoryStore

JOB = "support-bot-abc234"


class Growing:
    """A store with one stream, and a tail of it."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.tail = Tail(self.store, JOB, "metrics")

    def write(self, attempt: int, number: int, data: bytes) -> None:
        self.store.put(JobKeys(JOB).attempt(attempt).segment("metrics", number), data)


def test_every_segment_is_read_once() -> None:
    growing = Growing()
    assert growing.tail.read(0) == []
    growing.write(1, 1, b'{"step": 1}\n{"step": 2}\n')
    growing.write(1, 2, b'{"step": 3}\n')
    assert [line["step"] for line in growing.tail.read(1)] == [1, 2, 3]
    assert growing.tail.read(1) == []
    growing.write(1, 3, b'{"step": 4}\n')
    growing.write(2, 1, b'{"step": 5}\n')
    growing.write(4, 1, b'{"step": 6}\n')
    assert [line["step"] for line in growing.tail.read(4)] == [4, 5, 6]


def test_what_is_no_json_object_is_passed_over() -> None:
    growing = Growing()
    growing.write(1, 1, b'{"step": 1}\n\xff\n[1]\n7\n{"step": \n')
    assert growing.tail.read(1) == [{"step": 1}]
