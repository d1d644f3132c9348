"""Real machines in small, to rent, break and lose: each has its own address, disk and sshd.

with Rentals(images, folder) as rentals:
    rental = rentals.rent("vm")
    desk = Desk(rentals.home(tmp_path), url=..., ...)     # its ssh knows every rental under its name
    ... {"hosts": [{"ssh": rental.ssh}]} ...
    rental.release()
"""

from __future__ import annotations

import itertools
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest

from support.desk import until
from support.engine import Engine
from support.rental_images import ENGINE, PACKAGES, RentalImages

Kind = Literal["container", "vm"]
ROOT = "/root/.gpujob"
"""Where a rental's small disk is, when it was asked for."""

_NUMBERS = itertools.count(1)
_WIRES = (("raw", "PREROUTING", "-i", "--dport"), ("mangle", "POSTROUTING", "-o", "--sport"))


class Rental:
    """One machine. `ssh` is its name in the ssh config of every home that `Rentals.home` made."""

    def __init__(self, engine: Engine, kind: Kind, name: str, address: str, disk: Path | None) -> None:
        self.kind, self.ssh, self.address, self.host_key = kind, name, address, ""
        self._engine, self._disk = engine, disk

    def run(self, *argv: str, input: bytes | None = None, code: int = 0) -> str:
        """Run a command there, past its sshd; gives what it printed on standard output."""
        done = self._engine.docker("exec", "-i", self.ssh, *argv, input=input, check=False)
        assert done.returncode == code, f"{argv} exited {done.returncode}: {done.stdout!r} {done.stderr!r}"
        return done.stdout.decode()

    def processes(self, word: str = "") -> dict[int, str]:
        """Give pid and command line of every process there that carries `word`, those in its own containers too."""
        lines = self.run("ps", "-e", "-w", "-w", "-o", "pid=,args=").splitlines()
        found = {int(line.split()[0]): line.split(None, 1)[1] for line in lines}
        return {pid: args for pid, args in found.items() if word in args and not args.startswith("ps -e")}

    def up(self) -> None:
        """Wait for its sshd, and for its engine where it has one, and learn its host key."""
        until(self._listens, f"the sshd of {self.ssh}")
        if self.kind == "vm":
            ready = ("exec", self.ssh, "docker", "version")
            until(lambda: self._engine.docker(*ready, check=False).returncode == 0, f"the engine of {self.ssh}")
        self.host_key = self.run("cut", "-d ", "-f1,2", "/etc/ssh/ssh_host_ed25519_key.pub").strip()

    def reboot(self) -> None:
        """Cut the power and switch it on again: the same disk and address, and nothing that ran."""
        self._engine.docker("restart", "--time", "0", self.ssh)
        self.up()

    def release(self) -> None:
        """Destroy the machine and its disk. Safe to repeat."""
        self._engine.docker("rm", "--force", "--volumes", self.ssh, check=False)
        if self._disk and self._disk.exists():
            _sh("umount", str(self._disk))
            self._disk.rmdir()

    def cut(self, port: int | None = None) -> None:
        """Lose every packet from and to it, or those of one port of its own; no connection is told."""
        self._wires("-I", port)

    def mend(self, port: int | None = None) -> None:
        """Undo a cut. A reboot does, too."""
        self._wires("-D", port)

    def pause(self) -> None:
        """Freeze everything that runs there."""
        self._engine.docker("pause", self.ssh)

    def resume(self) -> None:
        """Undo a pause."""
        self._engine.docker("unpause", self.ssh)

    def fill_disk(self) -> None:
        """Leave not one byte on its small disk."""
        assert self._disk, "rent it with a disk of a given size"
        with (self._disk / "full").open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(1 << 20)):
                pass

    def free_disk(self) -> None:
        """Undo that."""
        assert self._disk
        (self._disk / "full").unlink()

    def _wires(self, act: str, port: int | None) -> None:
        """Set rules in its own network, with this machine's tools: it needs no right to do so itself."""
        pid = self._engine.text("inspect", "--format", "{{.State.Pid}}", self.ssh)
        for table, chain, direction, flag in _WIRES:
            only = ["-p", "tcp", flag, str(port)] if port else []
            rule = ["-w", "-t", table, act, chain, direction, "eth0", *only, "-j", "DROP"]
            _sh("nsenter", "-t", pid, "-n", "iptables", *rule)

    def _listens(self) -> bool:
        try:
            socket.create_connection((self.address, 22), timeout=1).close()
        except OSError:
            return False
        return True


class Rentals:
    """Rents machines in a network of their own, and holds the key to them. All are released when the block ends."""

    def __init__(self, images: RentalImages, folder: Path) -> None:
        self._images, self._engine, self._folder = images, images.engine, folder
        self._rented: list[Rental] = []
        self._network = f"10.214.{self._engine.gateway.split('.')[2]}"  # the third number is this engine's alone
        self.ssh_folder = folder / "ssh"
        self.ssh_folder.mkdir(mode=0o700, parents=True)
        self._key = self.ssh_folder / "id_ed25519"
        _sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "of-the-tests", "-f", str(self._key))

    def __enter__(self) -> Rentals:
        self._engine.docker("network", "create", "--subnet", f"{self._network}.0/24", "rentals")
        return self

    def __exit__(self, *exc: object) -> None:
        for rental in self._rented:
            rental.release()
        self._engine.docker("network", "rm", "rentals")

    def rent(self, kind: Kind = "container", disk_mb: int | None = None) -> Rental:
        """Rent a machine that is up; its folder for jobs can be a disk of its own, so small that it can be filled."""
        name, address = f"{kind}-{next(_NUMBERS)}", f"{self._network}.{len(self._rented) + 2}"  # none is used twice
        disk = self._small_disk(name, disk_mb) if disk_mb else None
        rental = Rental(self._engine, kind, name, address, disk)
        self._rented.append(rental)
        options = ["--name", name, "--hostname", name, "--network", "rentals", "--ip", address, "--tmpfs", "/run:exec"]
        options += ["--volume", f"{disk}:{ROOT}"] if disk else []
        options += [*ENGINE, "--volume", "/var/lib/docker"] if kind == "vm" else []
        image = self._images.vm if kind == "vm" else self._images.container
        self._engine.docker("create", *options, *PACKAGES, image)
        self._engine.docker("cp", f"{self._key}.pub", f"{name}:/root/.ssh/authorized_keys")
        if kind == "vm":
            self._give_images(name)
        self._engine.docker("start", name)
        rental.up()
        self._write_config()
        return rental

    def home(self, folder: Path) -> Path:
        """Make a home folder whose ssh can reach every machine that is or will be rented; give it."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".ssh").symlink_to(self.ssh_folder)
        return folder

    def _write_config(self) -> None:
        """Write what ssh needs to know of the machines."""
        config = [
            f"Host {each.ssh}\n  HostName {each.address}\n  User root\n  IdentityFile {self._key}\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {self.ssh_folder}/known_hosts\n"
            for each in self._rented
        ]
        (self.ssh_folder / "config").write_text("".join(config))
        known = [f"{each.address} {each.host_key}\n" for each in self._rented]
        (self.ssh_folder / "known_hosts").write_text("".join(known))

    def _small_disk(self, name: str, megabytes: int) -> Path:
        disk = self._folder / f"disk-{name}"
        disk.mkdir()
        _sh("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(disk))
        return disk

    def _give_images(self, name: str) -> None:
        """Fill a VM's engine with copies; the files of image layers never change, so they need not be copied."""
        mounts = '{{range .Mounts}}{{if eq .Destination "/var/lib/docker"}}{{.Source}}{{end}}{{end}}'
        target = self._engine.text("inspect", "--format", mounts, name)
        for source in self._images.inner.iterdir():
            how = "-al" if source.name == "overlay2" else "-a"
            _sh("cp", how, str(source), target)


@pytest.fixture
def rentals(rental_images: RentalImages, tmp_path: Path) -> Iterator[Rentals]:
    """Rent machines for one test."""
    with Rentals(rental_images, tmp_path / "rentals") as made:
        yield made


def _sh(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}: {done.stderr}"
