"""The kit: what an agent imports on another machine, fetched here, once for each kind of machine.

A rented machine needs nothing but a Python: the kit travels with gpujob itself, and only the agent ever sees it.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpujob import files, locks
from gpujob.core.errors import HostError
from gpujob.core.layout import HomePaths

LOCK = Path(__file__).with_name("agent.lock")
"""Exact versions of everything the agent imports."""

Libc = Literal["glibc", "musl"]
"""The C library a machine's programs are made for."""

_PLATFORMS: dict[Libc, tuple[str, ...]] = {
    "glibc": ("manylinux2014_{}", "manylinux_2_28_{}"),
    "musl": ("musllinux_1_1_{}", "musllinux_1_2_{}"),
}
_UV_PLATFORMS: dict[Libc, str] = {"glibc": "{}-manylinux_2_28", "musl": "{}-unknown-linux-musl"}
_MARKER = re.compile(r"""python_version (<|>=) "3\.([0-9]+)\"""")
_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Kit:
    """The kits of this computer, below the client's home."""

    home: HomePaths

    def folder(self, python: str, machine: str, libc: Libc = "glibc") -> tuple[str, Path]:
        """Give a kit's digest and its folder, a PYTHONPATH, fetched unless it is there; raises HostError.

        `python` is "3.11" or the like, `machine` what `uname -m` says.
        """
        wanted = requirements(python)
        digest = files.digest_bytes("\n".join((*wanted, python, machine, libc)).encode())[:16]
        folder = self.home.kits / digest
        with locks.locked(self.home.kits / f"{digest}.lock"):
            if not folder.is_dir():
                # Only one is here at a time, so what is there was left by one that was killed.
                beside = self.home.kits / f"{digest}.new"
                files.remove_tree(beside)
                _fetch(beside, wanted, python, machine, libc)
                beside.rename(folder)
        return digest, folder


def requirements(python: str) -> list[str]:
    """Give the exact versions for one version of Python. (pip would judge by its own.)"""
    lines = (line.partition(";") for line in LOCK.read_text().splitlines() if line and not line.startswith("#"))
    return [pin.strip() for pin, _, marker in lines if _holds(marker, int(python.partition(".")[2]))]


def _holds(marker: str, minor: int) -> bool:
    match = _MARKER.search(marker)
    return match is None or (minor >= int(match[2])) == (match[1] == ">=")


def _fetch(folder: Path, wanted: list[str], python: str, machine: str, libc: Libc) -> None:
    argv = [*_tool(machine, libc), "--target", str(folder), "--python-version", python, "--no-deps", *wanted]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _failed(python, machine, str(error)) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise _failed(python, machine, said[-1] if said else f"{argv[0]} ended with exit code {done.returncode}")


def _tool(machine: str, libc: Libc) -> list[str]:
    """Find something that installs for a machine which is not this one: any pip will do, or uv."""
    platforms = [word for each in _PLATFORMS[libc] for word in ("--platform", each.format(machine))]
    options = ["install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-compile", *platforms]
    only_made = ["--only-binary", ":all:"]
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", *options, *only_made]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--quiet", "--python-platform", _UV_PLATFORMS[libc].format(machine), *only_made]
    if pip := shutil.which("pip3"):
        return [pip, *options, *only_made]
    raise HostError(
        "fetch", "what the agent needs", "neither pip nor uv is here", f"run `{sys.executable} -m ensurepip`"
    )


def _failed(python: str, machine: str, cause: str) -> HostError:
    what = f"what an agent needs on Python {python} on {machine}"
    return HostError("fetch", what, cause, "it is fetched by pip, once: can this computer reach its package index?")
