"""`python -m gpujob.agent`: one attempt, told on standard input (or in `--launch FILE`) what to do."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from pydantic import ValidationError

from gpujob import locks
from gpujob.agent.child import adopt_orphans
from gpujob.agent.run import run
from gpujob.core.errors import GpujobError
from gpujob.core.layout import HostPaths
from gpujob.core.records import Launch
from gpujob.store.open import open_store


def main() -> int:
    """Run the attempt it is told of; 0 when it left a report, or runs already."""
    try:
        launch = Launch.decode(_told(sys.argv[1:]))
    except ValidationError as error:
        # The error itself would quote secrets.
        sys.stderr.write(f"the launch record cannot be read: {error.error_count()} fields are wrong\n")
        return 2
    lock = locks.take(HostPaths(Path(launch.root)).attempt(launch.attempt).pid)
    if lock is None:
        return 0
    os.ftruncate(lock, 0)
    os.write(lock, json.dumps({"pid": os.getpid(), "started": time.time()}).encode())
    adopt_orphans()
    try:
        store = open_store(launch.store, launch.store_env)
    except GpujobError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0 if run(launch, store, dict(os.environ)) else 1


def _told(words: list[str]) -> bytes:
    """Read the launch record; a file of it holds secrets, and is gone once it is read."""
    if words[:1] != ["--launch"]:
        return sys.stdin.buffer.read()
    path = Path(words[1])
    try:
        return path.read_bytes()
    finally:
        path.unlink()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: that would wait for threads whose store does not answer.
    os._exit(code)
