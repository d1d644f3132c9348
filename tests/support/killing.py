"""Kill a process right before one of its writes: what a power cut, an OOM killer or a vanished rental leaves."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

_CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.link", "os.symlink", "os.truncate"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_KILLED = 77


def each_kill(folder: Path, work: Callable[..., None], *args: object) -> Iterator[None]:
    """Run `work(*args)` in processes that die before their 1st, 2nd, … change below `folder`; yield after each death.

    Ends when a run gets through. `work` is a function of an importable module; its process shares nothing but disk.
    """
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__, work.__module__])
    for number in count(1):
        process = processes.Process(target=_run, args=(str(folder), number, work, args))
        process.start()
        process.join()
        if process.exitcode == 0:
            return
        assert process.exitcode == _KILLED, f"ended by itself with {process.exitcode}"
        yield


def _run(folder: str, number: int, work: Callable[..., None], args: tuple[object, ...]) -> None:
    changes = count(1)

    def hook(event: str, details: tuple[object, ...]) -> None:
        path = details[0] if details else None
        if not isinstance(path, (str, os.PathLike)) or not os.fspath(path).startswith(folder):
            return
        writes = event == "open" and isinstance(details[2], int) and details[2] & _WRITING
        if (writes or event in _CHANGES) and next(changes) == number:
            os._exit(_KILLED)

    sys.addaudithook(hook)
    work(*args)
