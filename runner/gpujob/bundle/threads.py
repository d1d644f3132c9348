"""Several files at a time: the wait is for a disk or a network, and blake3 lets other threads run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

from gpujob.store.protocol import Progress

T = TypeVar("T")
R = TypeVar("R")

_THREADS = 8


def map_all(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Do `work` for each item, several at a time; the first error ends it, once what is under way has ended."""
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="bundle") as pool:
        return list(pool.map(work, items))


def one_at_a_time(progress: Progress | None) -> Progress:
    """Make `progress` safe to be told from several threads; None becomes one that does nothing."""
    if progress is None:
        return lambda count: None
    lock, tell = Lock(), progress

    def told(count: int) -> None:
        with lock:
            tell(count)

    return told
