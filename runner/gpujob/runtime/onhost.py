"""`python -m gpujob.runtime.onhost VERB …`: what `remote` asks of a machine, done there.

The job's folder is $GPUJOB_ROOT, and the agent's modules are this process's own PYTHONPATH. The answer is one line of
JSON on standard output: {"ok": true} or {"error": …}. Nothing in it is secret.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpujob.core.errors import GpujobError, HostError
from gpujob.core.records import Launch
from gpujob.runtime.bare import Bare

ROOT = "GPUJOB_ROOT"


def main(words: Sequence[str]) -> dict[str, Any]:
    """Carry out one verb; give the answer."""
    root = os.environ[ROOT]
    runtime = Bare(None, machine(), pythonpath=os.environ["PYTHONPATH"])
    if words[0] == "start":
        runtime.start(_launch(sys.stdin.buffer.read()))
    elif words[0] == "stop":
        runtime.stop(words[1], root, int(words[2]), float(words[3]))
    else:
        assert words[0] == "release", words
        runtime.stop(words[1], root, int(words[2]), 0.0)
    return {"ok": True}


def machine() -> dict[str, str]:
    """Give what programs of this machine see: what a login gives, over what its first process has.

    In a rented container that one alone has the variables of the image.
    """
    first = b""
    with suppress(OSError):
        first = Path("/proc/1/environ").read_bytes()
    pairs = (item.partition("=") for item in first.decode(errors="replace").split("\0") if "=" in item)
    return {**{name: value for name, _, value in pairs}, **os.environ}


def _launch(data: bytes) -> Launch:
    try:
        return Launch.decode(data)
    except ValidationError as error:
        # The error itself would quote secrets.
        raise HostError("start", "the agent", f"{error.error_count()} fields of its launch are wrong") from None


if __name__ == "__main__":
    try:
        answer, code = main(sys.argv[1:]), 0
    except GpujobError as error:
        told = {"operation": error.operation, "target": error.target, "cause": error.cause, "hint": error.hint}
        answer, code = {"error": {**told, "kind": type(error).__name__}}, 1
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    os._exit(code)
