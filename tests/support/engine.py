"""A Docker engine of the tests' own: its socket, images, bridge and processes are nobody else's, and gone afterwards.

Needs root, and Debian's docker.io, iptables, iproute2 and mmdebstrap.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from gpujob import files, locks

PACKAGES = ("python3", "python3-venv", "openssh-server", "ca-certificates", "procps")
"""What the base image holds beside Debian 12's smallest system."""

_PATIENCE = 60.0
_SUBNETS = range(1, 255)


@dataclass(frozen=True)
class Engine:
    """A running engine. `gateway` is this machine's address on its bridge: where services for containers bind."""

    environ: dict[str, str]
    gateway: str
    base: str = "gpujob-tests/base"

    def docker(self, *argv: str, input: bytes | None = None, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        """Run `docker ARGV`; its output is bytes."""
        environ = {**os.environ, **self.environ}
        done = subprocess.run(["docker", *argv], env=environ, input=input, capture_output=True, check=False)
        assert done.returncode == 0 or not check, f"docker {' '.join(argv)}: {done.stderr.decode()}"
        return done

    def text(self, *argv: str) -> str:
        """Run `docker ARGV` and give what it printed."""
        return self.docker(*argv).stdout.decode().strip()


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """One engine for the whole test run, with the base image in it; every test removes its own containers."""
    if sys.platform != "linux" or os.geteuid() != 0:
        unavailable("only root on Linux can start a Docker engine of its own")
    with tempfile.TemporaryDirectory(prefix="gpujob-engine-") as folder, running_engine(Path(folder)) as own:
        own.docker("import", str(base_tar()), own.base)
        yield own


def unavailable(reason: str) -> NoReturn:
    """Skip a test that this machine cannot run. On CI nothing may be skipped: there it fails."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def running_engine(folder: Path) -> Iterator[Engine]:
    """Run an engine with all it has in `folder`; stopped, by its own process id, when the block ends."""
    missing = [name for name in ("dockerd", "docker", "iptables", "ip", "setpriv") if not shutil.which(name)]
    assert not missing, f"{missing} not found: apt-get install docker.io iptables iproute2 mmdebstrap"
    with ExitStack() as stack:
        bridge, gateway = stack.enter_context(_own_bridge())
        # It goes down with the test run, also when that is killed.
        command = ["setpriv", "--pdeathsig", "TERM", "dockerd", "-H", f"unix://{folder}/socket", "--bridge", bridge]
        command += ["--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "-p", f"{folder}/pid"]
        log = folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        stack.callback(_stop, process, folder)
        engine = Engine({"DOCKER_HOST": f"unix://{folder}/socket"}, gateway)
        _wait_until_ready(engine, process, log)
        stack.callback(_remove_containers, engine)
        yield engine


def base_tar() -> Path:
    """Give the base image's file system as a tar, made once on this machine (20 s) and kept."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gpujob-tests"
    tar = cache / f"bookworm-{hashlib.sha256(','.join(PACKAGES).encode()).hexdigest()[:12]}.tar"
    with locks.locked(cache / "base.lock"):
        if not tar.exists():
            assert shutil.which("mmdebstrap"), "mmdebstrap not found: apt-get install mmdebstrap"
            with files.replacing(tar) as temp:
                include = f"--include={','.join(PACKAGES)}"
                _run("mmdebstrap", "--quiet", "--format=tar", "--variant=minbase", include, "bookworm", str(temp))
    return tar


@contextmanager
def _own_bridge() -> Iterator[tuple[str, str]]:
    """Make a bridge under a name and in a network that nobody has; give the name and this machine's address on it."""
    taken = _run("ip", "-o", "-4", "address")
    for number in _SUBNETS:
        name, address = f"gpujob-t{number}", f"10.213.{number}.1"
        if f" 10.213.{number}." in taken:
            continue
        if (
            subprocess.run(["ip", "link", "add", name, "type", "bridge"], capture_output=True, check=False).returncode
            == 0
        ):
            break
    else:
        raise AssertionError("no network is free for a bridge of the tests' own")
    try:
        _run("ip", "address", "add", f"{address}/24", "dev", name)
        _run("ip", "link", "set", name, "up")
        yield name, address
    finally:
        _run("ip", "link", "delete", name)
        _remove_rules(name, f"10.213.{number}.0/24")


def _remove_rules(bridge: str, network: str) -> None:
    """Remove what the engine told the firewall about its bridge; other engines' rules stay."""
    for table in ("filter", "nat"):
        for rule in _run("iptables", "-w", "-t", table, "-S").splitlines():
            words = rule.split()
            if words[0] == "-A" and {bridge, network} & set(words):
                _run("iptables", "-w", "-t", table, "-D", *words[1:])


def _wait_until_ready(engine: Engine, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while engine.docker("version", check=False).returncode:
        said = log.read_text(errors="replace")[-4000:]
        assert process.poll() is None, f"the engine ended: {said}"
        assert time.monotonic() < deadline, f"the engine is not ready after {_PATIENCE:.0f} s: {said}"
        time.sleep(0.05)


def _remove_containers(engine: Engine) -> None:
    if left := engine.text("ps", "-aq").split():
        engine.docker("rm", "-f", "-v", *left)


def _stop(process: subprocess.Popen[bytes], folder: Path) -> None:
    process.terminate()
    try:
        process.wait(_PATIENCE)
    finally:
        process.kill()
        process.wait()
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if f" {folder}/" in line]
    for path in sorted(mounted, reverse=True):
        _run("umount", path)


def _run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout
