"""Where `ssh NAME` would go: ~/.ssh/config, read afresh each time, since rentals change their ports."""

from __future__ import annotations

import getpass
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpujob.core.errors import UsageError

_ADDRESS = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<host>\[[^\]]+\]|[^:\s]+)(?::(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class Target:
    """One machine as OpenSSH would reach it. `jumps` are tried in order, the last of them next to the machine."""

    name: str
    host: str
    port: int
    user: str
    key_files: tuple[Path, ...]
    known_hosts: tuple[Path, ...]
    jumps: tuple[str, ...] = ()
    command: str | None = None
    identities_only: bool = False
    host_key_alias: str | None = None


def resolve(name: str, environ: Mapping[str, str]) -> Target:
    """Look up an alias of the user's config, or user@host:port; raises UsageError for a text that is neither."""
    match = _ADDRESS.fullmatch(name)
    if match is None:
        raise UsageError("reach", repr(name), "it is neither an alias nor user@host:port")
    home = Path(environ.get("HOME") or Path.home())
    found = _lookup(home, match["host"].strip("[]"))
    user = match["user"] or found.get("user") or environ.get("USER") or getpass.getuser()
    jump = found.get("proxyjump", "none")
    command = found.get("proxycommand", "none")
    return Target(
        name=name,
        host=str(found.get("hostname", match["host"].strip("[]"))),
        port=int(match["port"] or found.get("port", 22)),
        user=str(user),
        key_files=tuple(_path(home, each) for each in found.get("identityfile", _default_keys(home))),
        known_hosts=tuple(_path(home, each) for each in _known_hosts(found)),
        jumps=() if jump == "none" else tuple(each.strip() for each in jump.split(",")),
        command=None if command == "none" else command,
        identities_only=str(found.get("identitiesonly", "no")).lower() == "yes",
        host_key_alias=found.get("hostkeyalias"),
    )


def _lookup(home: Path, host: str) -> Mapping[str, Any]:
    import paramiko

    config = paramiko.SSHConfig()
    for path in (home / ".ssh" / "config", Path("/etc/ssh/ssh_config")):
        if path.is_file():
            with path.open(errors="replace") as file:
                try:
                    config.parse(file)
                except Exception as error:
                    raise UsageError("read", str(path), str(error)) from error
    return dict(config.lookup(host))


def _default_keys(home: Path) -> list[str]:
    return [str(home / ".ssh" / name) for name in ("id_ed25519", "id_ecdsa", "id_rsa")]


def _known_hosts(found: Mapping[str, Any]) -> list[str]:
    user = str(found.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2")).split()
    return [*user, "/etc/ssh/ssh_known_hosts"]


def _path(home: Path, text: str) -> Path:
    return home / text[2:] if text.startswith("~/") else Path(text)
