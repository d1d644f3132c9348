"""Kill a process right before one of its writes: what a power cut, an OOM killer or a vanished rental leaves."""

from __future__ import annotations

import importlib.util
import inspect
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from itertools import count
from multiprocessing.process import BaseProcess
from pathlib import Path

_CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.link", "os.symlink", "os.truncate"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_KILLED = 77
_LOADED_ONCE = ["pytest", "gpujob.bundle", "gpujob.checkpoints.publish", "gpujob.checkpoints.restore", __name__]


def process_of(work: Callable[..., None], *args: object) -> BaseProcess:
    """Give a process that runs a function of a test module and shares nothing but the disk with this one.

    The module is found by its file: test modules have no name under which another process could import them.
    """
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(_LOADED_ONCE)
    return processes.Process(target=_run, args=(inspect.getfile(work), work.__name__, args))


def each_kill(folder: Path, work: Callable[..., None], *args: object) -> Iterator[None]:
    """Run `work(*args)` in processes that die before their 1st, 2nd, … change below `folder`; yield after each death.

    Ends when a run gets through.
    """
    for number in count(1):
        process = process_of(_die_at, str(folder), number, inspect.getfile(work), work.__name__, args)
        process.start()
        process.join()
        if process.exitcode == 0:
            return
        assert process.exitcode == _KILLED, f"ended by itself with {process.exitcode}"
        yield


def _run(path: str, name: str, args: tuple[object, ...]) -> None:
    spec = importlib.util.spec_from_file_location("killed", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["killed"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    getattr(module, name)(*args)


def _die_at(folder: str, number: int, path: str, name: str, args: tuple[object, ...]) -> None:
    changes = count(1)

    def hook(event: str, details: tuple[object, ...]) -> None:
        changed = details[0] if details else None
        if not isinstance(changed, (str, os.PathLike)) or not os.fspath(changed).startswith(folder):
            return
        writes = event == "open" and isinstance(details[2], int) and details[2] & _WRITING
        if (writes or event in _CHANGES) and next(changes) == number:
            os._exit(_KILLED)

    sys.addaudithook(hook)
    _run(path, name, args)
