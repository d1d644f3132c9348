"""The journal under SIGKILL: a process dies at every system call that changes the disk; the entry is old or new."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpujob import locks
from gpujob.client.journal import Journal
from gpujob.core.layout import HomePaths
from support.client import JOB_ID, make_entry

WRITER = """
import os, signal, sys
from pathlib import Path

home, kill_at = Path(sys.argv[1]), int(sys.argv[2])
from gpujob.client.journal import Journal
from gpujob.core.layout import HomePaths

done = 0


def dying(original):
    def call(*args, **kwargs):
        global done
        done += 1
        if done == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    return call


# Before each of these the disk is as the one before left it. A part of the bytes being written is the worst of them.
def half(original):
    def write(path, data):
        original(path, data[: len(data) // 2])
        global done
        done += 1
        if done == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(path, data)

    return write


for name in ("fsync", "replace", "close"):
    setattr(os, name, dying(getattr(os, name)))
Path.touch, Path.write_bytes = dying(Path.touch), half(Path.write_bytes)
Journal(HomePaths(home)).update(sys.argv[3], lambda entry: entry.noting(1.0, "note", "new" * 1000))
"""


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(HomePaths(tmp_path / "home"))
    journal.create(make_entry())
    return journal


def test_killed_at_every_write_the_entry_is_the_old_or_the_new_one(journal):
    old = journal.read(JOB_ID)
    new = old.noting(1.0, "note", "new" * 1000)
    seen = []
    for kill_at in range(1, 30):
        journal.update(JOB_ID, lambda entry: old.model_copy())
        argv = [sys.executable, "-c", WRITER, str(journal.home.root), str(kill_at), JOB_ID]
        code = subprocess.run(argv, check=False, timeout=60).returncode
        entry = journal.read(JOB_ID)
        assert entry in (old, new), kill_at
        assert not locks.is_held(journal.home.lock(JOB_ID)), "the dead hold no lock"
        seen.append(entry == new)
        if code == 0:
            assert entry == new
            break
        assert code == -signal.SIGKILL
    else:
        raise AssertionError("the writer never got through")
    assert seen == sorted(seen), "once it is new it stays new"
    assert len(seen) >= 5
    assert not seen[0]
    journal.sweep(journal.home.job(JOB_ID).stat().st_mtime + 1e6)
    assert [path.name for path in journal.home.journal.iterdir() if path.name.startswith(".")] == []
