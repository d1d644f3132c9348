"""Stand-ins for the agent: real processes that obey the launch contract, and do with it what a test needs."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

from gpujob import bundle
from gpujob.checkpoints import head as heads
from gpujob.core.records import Launch
from gpujob.store.protocol import Store

SMALL = """
import fcntl, json, os, signal, subprocess, sys, time
from pathlib import Path

launch = json.loads(sys.stdin.read())
attempt = Path(launch["root"]) / "attempts" / f"{launch['attempt']:04d}"
lock = os.open(attempt / "agent.json", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(0)


def until_told() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    note()
    signal.sigwait({signal.SIGTERM})


def note() -> None:
    os.write(lock, json.dumps({"pid": os.getpid(), "started": time.time()}).encode())


def child(*argv: str, **options: object) -> int:
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True, **options).pid


def tell(**values: object) -> None:
    (attempt / "told.json").write_text(json.dumps(values))

"""
"""A whole agent that needs nothing of gpujob; a test appends what it does once it has its lock."""


def ship_small_agent(store: Store, folder: Path, job_id: str, does: str) -> None:
    """Put an agent into the store that does what the given lines say."""
    package = folder / "gpujob"
    (package / "agent").mkdir(parents=True)
    for name in ("__init__.py", "agent/__init__.py"):
        (package / name).touch()
    (package / "agent" / "__main__.py").write_text(SMALL + textwrap.dedent(does))
    bundle.ship(store, job_id, bundle.pack({"app": package}))
    heads.create(store, job_id)


def launch_of(job_id: str, root: Path, attempt: int = 1, **changes: object) -> Launch:
    """Give what an agent is told."""
    return Launch(**{"job_id": job_id, "attempt": attempt, "store": "memory://", "root": str(root), **changes})


def fake_app(folder: Path) -> Path:
    """Give a copy of gpujob whose agent is support/fake_agent.py, to be packed as the part `app`."""
    package = folder / "gpujob"
    if not package.exists():
        unwanted = shutil.ignore_patterns("agent", "trainer", "cli", "report", "jobfile", "__pycache__")
        shutil.copytree(bundle.app_part(), package, ignore=unwanted)
        (package / "agent").mkdir()
        (package / "agent" / "__init__.py").touch()
        shutil.copy(Path(__file__).with_name("fake_agent.py"), package / "agent" / "__main__.py")
    return package
