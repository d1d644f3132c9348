"""The Python the built-in trainer runs under: the machine's own when it has all of it, else one made here, once.

A made environment reuses the machine's torch: that one fits its driver, and is the bulk of the download. It is named by
the digest of all that decides what is in it, and shared by every job on the machine. As a program
(`python -m gpujob.agent.environment FOLDER`) this file makes one; whoever comes second waits, and finds it made.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpujob import files, locks
from gpujob.core.layout import MachinePaths

LOCK = Path(__file__).with_name("train.lock")
"""Exact versions of everything the trainer imports."""

_OLDEST = {
    "torch": (2, 6),
    "transformers": (5, 0),
    "peft": (0, 18),
    "trl": (1, 0),
    "accelerate": (1, 10),
    "datasets": (4, 0),
}
_MADE = "made"
_LOOK_SECONDS = 60.0

_VERSIONS = """
import json, sys
from importlib import metadata
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
print(json.dumps({name: version(name) for name in sys.argv[1:]}))
"""
_SITES = "import json, site; print(json.dumps([*site.getsitepackages(), site.getusersitepackages()]))"


@dataclass(frozen=True, slots=True)
class Choice:
    """The trainer's Python; `make` is the folder to make it in first, or None."""

    python: str
    make: Path | None = None


def choose(machine: MachinePaths) -> Choice:
    """Decide which Python trains on this machine."""
    found = versions(sys.executable)
    if all(_serves(name, found) for name in _OLDEST):
        return Choice(sys.executable)
    folder = machine.env(digest("torch" if _serves("torch", found) else "", sys.executable, sys.version))
    made = (folder / _MADE).exists()
    return Choice(str(folder / "bin" / "python"), None if made else folder)


def versions(python: str) -> dict[str, str | None]:
    """Give what an interpreter has of the trainer's main packages; nothing when it cannot be asked."""
    try:
        return dict(json.loads(_ask(python, _VERSIONS, *_OLDEST)))
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}


def _ask(python: str, script: str, *words: str) -> bytes:
    """Run a script without the agent's own PYTHONPATH."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    argv = [python, "-c", script, *words]
    return subprocess.run(argv, env=environ, capture_output=True, timeout=_LOOK_SECONDS, check=True).stdout


def digest(*salt: str) -> str:
    """Name an environment by what is in it."""
    return hashlib.sha256("\0".join((LOCK.read_text(), *salt)).encode()).hexdigest()[:16]


def argv(folder: Path) -> list[str]:
    """Give the command that makes an environment."""
    return [sys.executable, "-m", "gpujob.agent.environment", str(folder)]


def make(folder: Path) -> None:
    """Make the environment unless it is there; raises CalledProcessError or OSError."""
    with locks.locked(folder.with_name(f"{folder.name}.lock")):
        if (folder / _MADE).exists():
            return
        files.remove_tree(folder)
        _run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
        python = folder / "bin" / "python"
        pinned = [line for line in LOCK.read_text().splitlines() if line and not line.startswith("#")]
        torch = next(line for line in pinned if line.startswith("torch=="))
        if _serves("torch", versions(sys.executable)):
            _open_to_the_machines_own(folder)
        else:
            # With all it needs: which libraries of CUDA those are is its own affair.
            _install(python, [torch])
        _install(python, [line for line in pinned if line != torch], "--no-deps")
        files.write(folder / _MADE, b"")


def _open_to_the_machines_own(folder: Path) -> None:
    """Let an environment fall back on what this interpreter has, be it a venv itself."""
    sites = json.loads(_ask(sys.executable, _SITES))
    (own,) = folder.glob("lib/python*/site-packages")
    files.write(own / "machine.pth", "".join(f"import site; site.addsitedir({path!r})\n" for path in sites).encode())


def _install(python: Path, requirements: Sequence[str], *options: str) -> None:
    """Install with uv where it can be had, else with the pip that came along with the agent."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
        listed.write("\n".join(requirements))
        listed.flush()
        uv = shutil.which("uv")
        tool = [uv, "pip", "install", "--python", python] if uv else _pip(python)
        _run([*map(str, tool), *options, "--requirement", listed.name])


def _pip(python: Path) -> list[str]:
    options = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--root-user-action", "ignore"]
    return [sys.executable, "-m", "pip", "--python", str(python), "install", *options]


def _run(argv: Sequence[str]) -> None:
    subprocess.run(argv, check=True)


def _serves(name: str, found: Mapping[str, str | None]) -> bool:
    numbers = tuple(int(number) for number in re.findall(r"\d+", found.get(name) or "")[:2])
    return numbers >= _OLDEST[name]


if __name__ == "__main__":
    try:
        make(Path(sys.argv[1]))
    except subprocess.CalledProcessError as error:
        sys.exit(f"the environment for training could not be made: a command ended with exit code {error.returncode}")
