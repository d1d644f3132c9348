"""Whether a machine is the one it should be. An unknown key is asked about; a changed one never gets through."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gpujob import files, locks
from gpujob.core.errors import HostDenied

if TYPE_CHECKING:
    from paramiko import PKey


class Ask(Protocol):
    """A person at a terminal."""

    def accept_key(self, host: str, kind: str, fingerprint: str) -> bool:
        """Ask whether a key that nobody knows yet is the machine's own."""
        ...

    def passphrase(self, path: Path) -> str:
        """Ask for the passphrase of a private key."""
        ...


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A line of a known_hosts file about one machine."""

    kind: str
    key: str
    place: str
    revoked: bool = False


def fingerprint(key: PKey) -> str:
    """Give a key's fingerprint as ssh-keygen -lf shows it."""
    digest = hashlib.sha256(key.asbytes()).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def known_keys(paths: Sequence[Path], name: str) -> list[KnownKey]:
    """List what known_hosts files say about a machine; `name` is host, or [host]:port when that is not 22."""
    return [key for path in paths for key in _read(path, name)]


def verify(
    host: str, name: str, key: PKey, known: Sequence[KnownKey], pinned: str | None, own: Path, ask: Ask | None
) -> None:
    """Let a machine's key pass, or raise HostDenied. What a person accepts is kept in `own`.

    `host` is what the person calls the machine, `name` how known_hosts files do; `pinned` is the spec's fingerprint.
    """
    seen = fingerprint(key)
    if pinned is not None:
        if pinned != seen:
            cause = f"its key is {seen}, and host_key says {pinned}"
            raise HostDenied("trust", host, cause, "somebody may be in between; or is the rental a new one?")
        return
    here = [each for each in known if each.key == key.get_base64()]
    if here and not any(each.revoked for each in here):
        return
    if same := [each for each in known if each.kind == key.get_name() or each.revoked]:
        cause = f"its key is {seen} now, and {same[0].place} knows another"
        raise HostDenied("trust", host, cause, "somebody may be in between; if it is a new machine, remove that line")
    if ask is not None and ask.accept_key(host, key.get_name(), seen):
        _remember(own, name, key)
        return
    hint = f"compare it, then run `gpujob host check {host}` on a terminal, or write `host_key: {seen}`"
    raise HostDenied("trust", host, f"nobody knows its key {seen} yet", hint)


def _read(path: Path, name: str) -> Iterator[KnownKey]:
    from paramiko.hostkeys import HostKeyEntry, HostKeys

    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return
    for number, line in enumerate(lines, 1):
        words = line.split()
        revoked = words[:1] == ["@revoked"]
        if not words or words[0].startswith("#") or (words[0].startswith("@") and not revoked):
            continue
        entry = HostKeyEntry.from_line(" ".join(words[1:] if revoked else words), number)
        if entry is None or entry.key is None:
            continue
        keys = HostKeys()
        keys._entries.append(entry)
        if keys.lookup(name) is not None:
            yield KnownKey(entry.key.get_name(), entry.key.get_base64(), f"{path}:{number}", revoked)


def _remember(own: Path, name: str, key: PKey) -> None:
    files.make_folder(own.parent)
    with locks.locked(own.with_suffix(".lock")):
        before = own.read_bytes() if own.exists() else b""
        files.write(own, before + f"{name} {key.get_name()} {key.get_base64()}\n".encode(), mode=0o600)
