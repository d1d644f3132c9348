"""Look at a machine, in one round trip: a script travels on standard input, and one line of JSON comes back."""

from __future__ import annotations

import json
import time
from pathlib import Path

from gpujob.core.errors import HostError
from gpujob.core.layout import AttemptPaths, HostPaths, MachinePaths
from gpujob.hosts import onsite
from gpujob.hosts.survey import Survey, read
from gpujob.transport.protocol import Completed, Transport

PYTHONS = (
    *("python3.13", "python3.12", "python3.11", "python3.10", "python3", "python"),
    *("/usr/bin/python3", "/usr/local/bin/python3", "/opt/conda/bin/python3", "/venv/main/bin/python3"),
    *("/opt/venv/bin/python3", "/root/miniconda3/bin/python3", "~/miniconda3/bin/python3", "~/anaconda3/bin/python3"),
)
"""Where a Python may be found. A command over SSH does not see what a login shell adds to the path."""

_SECONDS = 90.0
_TAIL = 2000
_HINT = "does `ssh` to it give a plain shell of Linux?"

# Any Python 3.6 can say that none is new enough.
_FIND = r"""
question=$1; shift
for oldest in 10 6; do
  for python do
    case $python in "~/"*) python=$HOME/${python#??};; esac
    if "$python" -c "import sys; sys.exit(sys.version_info < (3, $oldest))" </dev/null >/dev/null 2>&1; then
      exec "$python" -I - "$question"
    fi
  done
done
printf '\n%s{}\n' "$MARK"
"""


def probe(transport: Transport, root: str | None = None, store: str = "") -> Survey:
    """Look at the machine; raises HostUnreachable, HostDenied, or HostError when it gives no usable answer.

    `root` is the folder that will be used there, .gpujob in the home when left out; `store` the address to try.
    """
    transport.open()
    below, job = Path(), MachinePaths(Path()).job("any")
    question = {
        "root": root or "",
        "store": store,
        "pythons": PYTHONS,
        "jobs": str(job.root.parent),
        "agents": str(HostPaths(below).attempts / "*" / AttemptPaths(below).pid),
    }
    script = Path(onsite.__file__).read_bytes()
    sent = time.time()
    done = transport.run(
        ["sh", "-c", f"MARK='{onsite.MARK}'{_FIND}", "gpujob", json.dumps(question), *PYTHONS],
        input=script,
        timeout=_SECONDS,
    )
    return _survey(done, transport.name, sent, time.time(), root)


def _survey(done: Completed, name: str, sent: float, received: float, root: str | None) -> Survey:
    try:
        survey = read(done.stdout, onsite.MARK)
    except ValueError as error:
        said = (done.stderr or done.stdout)[-_TAIL:].decode(errors="replace").strip().splitlines()
        cause = said[-1] if said else "it said nothing"
        raise HostError("look at", name, f"its answer cannot be used: {cause}", _HINT) from error
    # A machine may say where its user's home is, and nothing else about where we write.
    known = {"ahead": ahead(survey, sent, received), **({"root": root} if root else {})}
    return survey.model_copy(update=known)


def ahead(survey: Survey, sent: float, received: float) -> float | None:
    """Give the seconds that its clock is ahead for certain: a slow line, or a slow start there, accuses no clock."""
    if survey.clock is None:
        return None
    # It read its clock after `sent`, and then worked on for a while before the answer was here.
    most, least = survey.clock - sent, survey.clock - (received - survey.seconds)
    return max(0.0, least) + min(0.0, most)
