"""Agents on another machine: what they need is brought there over a transport, and a script there does the rest.

Nothing has to be installed on the machine but a Python. What the agent imports (the kit) and gpujob itself travel once,
are shared by all jobs there, and are seen by agents alone.
"""

from __future__ import annotations

import json
import shlex
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpujob import files
from gpujob.core.errors import Damaged, HostError
from gpujob.core.layout import AttemptPaths, HomePaths, HostPaths
from gpujob.core.records import Launch
from gpujob.runtime.kit import Kit, Libc
from gpujob.runtime.protocol import Cargo
from gpujob.store.protocol import Progress
from gpujob.transport.bulk import send_blobs
from gpujob.transport.protocol import Completed, Transport

_BLOCK = 1 << 18
_SHIP_SECONDS = 900.0
_START_SECONDS = 120.0
_STOP_SECONDS = 60.0
_LONGEST_WORDS = 500

_PYTHONS = (
    *("python3.13", "python3.12", "python3.11", "python3.10", "python3", "/usr/bin/python3", "/usr/local/bin/python3"),
    *("/opt/conda/bin/python3", "/venv/main/bin/python3", "/opt/venv/bin/python3", "/root/miniconda3/bin/python3"),
)
_FIND = r"""
for python do
  if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' </dev/null >/dev/null 2>&1; then
    exec "$python" -I -c 'import os, platform, sys
print(sys.executable, "%d.%d" % sys.version_info[:2], platform.machine(), platform.libc_ver()[0] or "musl", sep="\n")'
  fi
done
exit 1
"""
_HAS = 'for each do [ -d "$each" ] && echo yes || echo no; done'
# Whole or not at all; another client may have been faster.
_UNPACK = """
import os, shutil, sys, tarfile
target = sys.argv[1]
new = "%s.new-%d" % (target, os.getpid())
os.makedirs(new, 0o700)
try:
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|gz") as archive:
        archive.extractall(new)
    try:
        os.rename(new, target)
    except OSError:
        if not os.path.isdir(target):
            raise
finally:
    shutil.rmtree(new, ignore_errors=True)
"""
_WRITE = 'umask 077; mkdir -p "$(dirname "$1")" && cat > "$1.new" && chmod "$2" "$1.new" && mv -f "$1.new" "$1"'
_ALIVE = """
import fcntl, os, sys
try:
    lock = os.open(sys.argv[1], os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("no")
except FileNotFoundError:
    print("no")
except BlockingIOError:
    print("yes")
"""


@dataclass(frozen=True, slots=True)
class _Machine:
    """The Python of a machine, and what that is made for."""

    python: str
    version: str
    arch: str
    libc: Libc


@dataclass(frozen=True, slots=True)
class Remote:
    """Run agents on the other end of a transport."""

    transport: Transport
    home: HomePaths

    def ship(self, cargo: Cargo, progress: Progress | None = None) -> None:
        """Bring the kit, gpujob itself, the script, and what travels with the job; each only when it is not there."""
        assert cargo.app is not None, "an agent needs gpujob"
        host = HostPaths(Path(cargo.root))
        there = self._find()
        digest, kit = Kit(self.home).folder(there.version, there.arch, there.libc)
        app_digest = _app_digest(cargo.app)
        app_path, kit_path = host.machine.app(app_digest), host.machine.kit(digest)
        for folder, target in ((cargo.app, app_path), (kit, kit_path)):
            if self._run(["sh", "-c", _HAS, "sh", str(target)]).check("look at", str(target)).text != "yes":
                self._unpack(there, folder, target, only_gpujob=folder is cargo.app)
        self._write(host.onhost, _script(there, host, f"{app_path}:{kit_path}"), 0o700)
        if cargo.bundle is not None:
            wanted = {entry.blake3 for part in cargo.bundle.parts.values() for entry in part}
            receiver = ["sh", str(host.onhost), "receive", str(host.machine.cache)]
            send_blobs(self.transport, receiver, {each: cargo.sources[each] for each in wanted}, progress)
            self._write(host.bundle, cargo.bundle.encode(), 0o600)

    def start(self, launch: Launch) -> None:
        """Start an attempt there; its secrets go over standard input."""
        self._ask(launch.root, "start", input=launch.encode(), timeout=_START_SECONDS)

    def alive(self, root: str, attempt: int) -> bool:
        """Say whether an attempt's agent holds its lock."""
        done = self._run(self._onhost(root, "alive", str(_attempt(root, attempt).pid)))
        return done.check("look at", f"attempt {attempt} on {self.transport.name}").text == "yes"

    def last_words(self, root: str, attempt: int) -> str:
        """Give the last line of an attempt's log, as far as it can be shown."""
        done = self._run(["tail", "-n", "1", str(_attempt(root, attempt).agent_log)])
        return "".join(each for each in done.text if each.isprintable())[-_LONGEST_WORDS:] if done.exit == 0 else ""

    def stop(self, job_id: str, root: str, last_attempt: int, grace: float) -> None:
        """End everything of the attempts there."""
        self._ask(root, "stop", job_id, str(last_attempt), f"{grace:g}", timeout=grace + _STOP_SECONDS)

    def _find(self) -> _Machine:
        done = self._run(["sh", "-c", _FIND, "sh", *_PYTHONS])
        words = done.text.splitlines()
        if done.exit or len(words) != 4 or not all(word.isprintable() for word in words):
            raise HostError("use", self.transport.name, "it has no Python 3.10 or newer", "install python3 there")
        return _Machine(words[0], words[1], words[2], "glibc" if words[3] == "glibc" else "musl")

    def _unpack(self, there: _Machine, folder: Path, target: Path, *, only_gpujob: bool) -> None:
        with tempfile.TemporaryFile() as file:
            with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
                for path in sorted(folder.iterdir()):
                    if not only_gpujob or path.name == "gpujob":
                        archive.add(path, path.name, filter=_plain)
            file.seek(0)
            blocks: Iterator[bytes] = iter(lambda: file.read(_BLOCK), b"")
            done = self.transport.run(
                [there.python, "-I", "-W", "ignore", "-c", _UNPACK, str(target)], input=blocks, timeout=_SHIP_SECONDS
            )
        done.check("unpack", f"{self.transport.name}:{target}", "is its disk full?")

    def _write(self, path: Path, data: bytes, mode: int) -> None:
        done = self.transport.run(["sh", "-c", _WRITE, "sh", str(path), f"{mode:o}"], input=data)
        done.check("write", f"{self.transport.name}:{path}", "is its disk full?")

    def _run(self, argv: list[str]) -> Completed:
        return self.transport.run(argv)

    def _onhost(self, root: str, *words: str) -> list[str]:
        return ["sh", str(HostPaths(Path(root)).onhost), *words]

    def _ask(self, root: str, *words: str, input: bytes = b"", timeout: float) -> None:
        done = self.transport.run(self._onhost(root, *words), input=input, timeout=timeout)
        _understand(done, words[0], self.transport.name)


def _attempt(root: str, attempt: int) -> AttemptPaths:
    return HostPaths(Path(root)).attempt(attempt)


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if info.name.endswith("__pycache__") or not (info.isfile() or info.isdir()) else info


def _app_digest(app: Path) -> str:
    entries = [each for each in files.describe_tree(app / "gpujob") if "__pycache__" not in each.path]
    return files.digest_bytes("\n".join(f"{each.path} {each.blake3}" for each in entries).encode())[:16]


def _script(there: _Machine, host: HostPaths, pythonpath: str) -> bytes:
    """Write what runs the machine's end; whether an agent lives is asked often, and needs no module of ours."""
    python = shlex.quote(there.python)
    ours = f"exec env PYTHONPATH={shlex.quote(pythonpath)} GPUJOB_ROOT={shlex.quote(str(host.root))} {python}"
    lines = [
        "#!/bin/sh",
        "case $1 in",
        f'alive) exec {python} -I -c {shlex.quote(_ALIVE)} "$2" ;;',
        f'receive) shift; {ours} -m gpujob.transport.receive "$@" ;;',
        f'*) {ours} -m gpujob.runtime.onhost "$@" ;;',
        "esac",
    ]
    return ("\n".join(lines) + "\n").encode()


def _understand(done: Completed, verb: str, name: str) -> None:
    """Turn the machine's answer into what it means; its words are a stranger's."""
    try:
        answer: Any = json.loads(done.stdout.splitlines()[-1])
        error = answer.get("error")
        told = [_tame(error[each]) for each in ("operation", "target", "cause", "hint")] if error else []
    except (IndexError, ValueError, KeyError, AttributeError, TypeError):
        said = _tame(done.stderr.decode(errors="replace").strip() or done.text or f"exit code {done.exit}")
        raise HostError(verb, f"the agent on {name}", said) from None
    if told:
        kind = Damaged if error.get("kind") == "Damaged" else HostError
        raise kind(told[0], f"{told[1]} on {name}", told[2], told[3])


def _tame(text: object) -> str:
    return "".join(each for each in str(text)[-4 * _LONGEST_WORDS :] if each.isprintable() or each == "\n")
