"""An sshd of the test's own, on a loopback port, that nobody else's configuration touches."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.desk import until


class Sshd:
    """A server one logs in to as oneself. `alias` is its name in the ssh config below `home`, which is a $HOME."""

    alias = "box"

    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.there = folder, folder / "home", folder / "there"
        self.dot_ssh = self.home / ".ssh"
        self.dot_ssh.mkdir(parents=True, mode=0o700)
        self.there.mkdir()
        self.port = free_port()
        self.banner = ""
        self.noise = ""
        self._process: subprocess.Popen[bytes] | None = None
        keygen(folder / "host_key")
        keygen(self.dot_ssh / "id_ed25519")
        shutil.copy(self.dot_ssh / "id_ed25519.pub", folder / "authorized_keys")
        self.configure()
        self.trust()

    @property
    def environ(self) -> dict[str, str]:
        """What a client sees that has this home and no agent."""
        return {"HOME": str(self.home), "PATH": os.environ["PATH"], "USER": os.environ.get("USER", "root")}

    def configure(self, **more: str) -> None:
        """Write the user's config."""
        options = {"HostName": "127.0.0.1", "Port": str(self.port), **more}
        lines = [f"Host {self.alias}", *(f"  {name} {value}" for name, value in options.items())]
        (self.dot_ssh / "config").write_text("\n".join(lines) + "\n")

    def trust(self) -> None:
        """Make the server's key known to the user."""
        kind, key = (self.folder / "host_key.pub").read_text().split()[:2]
        (self.dot_ssh / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {kind} {key}\n")

    def forget(self) -> None:
        """Make nobody know the server's key."""
        (self.dot_ssh / "known_hosts").unlink(missing_ok=True)

    def change_key(self) -> None:
        """Be another machine from the next start on."""
        for path in (self.folder / "host_key", self.folder / "host_key.pub"):
            path.unlink()
        keygen(self.folder / "host_key")

    def move(self) -> None:
        """Come up on another port, as rentals do."""
        self.stop()
        self.port = free_port()
        self.configure()
        self.trust()
        self.start()

    def fingerprint(self) -> str:
        """Give its key as ssh-keygen shows it."""
        argv = ["ssh-keygen", "-lf", str(self.folder / "host_key.pub")]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()[1]

    def start(self) -> None:
        """Start it; returns when it takes connections."""
        (self.folder / "banner").write_text(self.banner)
        command = self.folder / "noisy"
        # What a .bashrc prints comes before the command's own output, on the same channel.
        command.write_text(
            f'#!/bin/sh\ncd "{self.there}"\nprintf %s "$NOISE"\nexec /bin/sh -c "$SSH_ORIGINAL_COMMAND"\n'
        )
        command.chmod(0o755)
        config = self.folder / "sshd_config"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host_key\nPidFile none\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
            f"PasswordAuthentication no\nMaxSessions 40\nForceCommand {command}\n"
            f"SetEnv HOME={self.there} NOISE={quoted(self.noise)}\n"
            + (f"Banner {self.folder}/banner\n" if self.banner else "")
        )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        log = self.folder / "sshd.log"
        argv = [str(shutil.which("sshd", path="/usr/sbin:/usr/bin:/sbin")), "-D", "-f", str(config), "-E", str(log)]
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        until(lambda: listens(self.port) or self._process.poll() is not None, "sshd", 20)
        assert self._process.poll() is None, log.read_text()

    def stop(self) -> None:
        """Stop it and every connection through it."""
        if self._process is None:
            return
        import psutil

        family = [*psutil.Process(self._process.pid).children(recursive=True), psutil.Process(self._process.pid)]
        for each in family:
            if "sshd" in each.name():
                each.kill()
        self._process.wait()
        self._process = None

    def drop(self) -> None:
        """Break every connection, and go on listening."""
        import psutil

        assert self._process is not None
        for each in psutil.Process(self._process.pid).children():
            each.kill()


def keygen(path: Path, passphrase: str = "", kind: str = "ed25519") -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", str(path)], check=True)


def free_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as own:
        return own.connect_ex(("127.0.0.1", port)) == 0


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A running server that its user can log in to."""
    server = Sshd(tmp_path / "sshd")
    server.start()
    try:
        yield server
    finally:
        server.stop()
