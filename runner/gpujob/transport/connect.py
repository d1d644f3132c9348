"""Making an SSH connection: through every jump, to the right machine, with a key of ours it accepts."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpujob.core.errors import HostDenied, HostError, HostUnreachable
from gpujob.transport.config import Target, resolve
from gpujob.transport.hostkeys import Ask, KnownKey, known_keys, verify

if TYPE_CHECKING:
    from paramiko import Agent, Channel, PKey, Transport

_CONNECT_SECONDS = 20.0
_KEEPALIVE_SECONDS = 15
_MOST_JUMPS = 8


@dataclass(frozen=True, slots=True)
class Connection:
    """An open connection, and what it goes through."""

    transport: Transport
    below: tuple[Any, ...] = ()

    @property
    def alive(self) -> bool:
        """Say whether it still stands, as far as is known."""
        return bool(self.transport.is_active())

    def channel(self, window: int) -> Channel:
        """Open a channel; raises HostUnreachable."""
        import paramiko

        try:
            return self.transport.open_session(window_size=window, timeout=_CONNECT_SECONDS)
        except (paramiko.SSHException, EOFError, OSError) as error:
            self.close()
            raise HostUnreachable("open a channel to", "the machine", str(error) or "the connection broke") from error

    def close(self) -> None:
        """End it, outermost first."""
        for each in (self.transport, *self.below):
            with suppress(Exception):
                each.close()
        with suppress(Exception):
            self.transport.join(2)


def connect(
    name: str, environ: Mapping[str, str], own_known_hosts: Path, pinned: str | None, ask: Ask | None
) -> Connection:
    """Connect to what `ssh NAME` means now; raises HostUnreachable or HostDenied."""
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # it prints what we raise
    return _connect(resolve(name, environ), environ, own_known_hosts, pinned, ask, _MOST_JUMPS)


def _connect(
    target: Target, environ: Mapping[str, str], own: Path, pinned: str | None, ask: Ask | None, depth: int
) -> Connection:
    import paramiko

    if depth == 0:
        raise HostUnreachable("reach", target.name, f"more than {_MOST_JUMPS} jumps", "does ProxyJump go in a circle?")
    below: list[Any] = []
    try:
        line = _line(target, environ, own, ask, depth, below)
        known_as = target.host_key_alias or target.host
        label = known_as if target.port == 22 else f"[{known_as}]:{target.port}"
        known = known_keys((*target.known_hosts, own), label)
        transport = paramiko.Transport(line)
        below[:0] = [transport, line]
        transport.set_keepalive(_KEEPALIVE_SECONDS)
        _prefer_known(transport, known)
        transport.start_client(timeout=_CONNECT_SECONDS)
        verify(target.name, label, transport.get_remote_server_key(), known, pinned, own, ask)
        _log_in(transport, target, environ, ask)
    except HostError:
        _close(below)
        raise
    except (paramiko.SSHException, EOFError, OSError) as error:
        _close(below)
        where = f"{target.host}:{target.port}"
        cause = f"{where}: {getattr(error, 'strerror', None) or error or 'it hung up'}"
        raise HostUnreachable("reach", target.name, cause, f"does `ssh {target.name}` work?") from error
    return Connection(transport, tuple(below[1:]))


def _line(target: Target, environ: Mapping[str, str], own: Path, ask: Ask | None, depth: int, below: list[Any]) -> Any:
    """Give something like a socket that ends at the machine."""
    if target.command is not None:
        import paramiko

        return paramiko.ProxyCommand(target.command)
    if not target.jumps:
        line = socket.create_connection((target.host, target.port), timeout=_CONNECT_SECONDS)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return line
    last = resolve(target.jumps[-1], environ)
    if len(target.jumps) > 1:
        last = _with_jumps(last, target.jumps[:-1])
    jump = _connect(last, environ, own, None, ask, depth - 1)
    below.append(jump)
    return jump.transport.open_channel(
        "direct-tcpip", (target.host, target.port), ("127.0.0.1", 0), timeout=_CONNECT_SECONDS
    )


def _with_jumps(target: Target, jumps: Sequence[str]) -> Target:
    from dataclasses import replace

    return replace(target, jumps=tuple(jumps))


def _prefer_known(transport: Transport, known: Sequence[KnownKey]) -> None:
    """Ask for a kind of key that is known, so that another one of the same machine is not taken for a change."""
    options = transport.get_security_options()
    kinds = {each.kind for each in known}
    wanted = [each for each in options.key_types if each in kinds or ("ssh-rsa" in kinds and each.startswith("rsa-"))]
    if wanted:
        options.key_types = (*wanted, *(each for each in options.key_types if each not in wanted))


def _log_in(transport: Transport, target: Target, environ: Mapping[str, str], ask: Ask | None) -> None:
    import paramiko

    tried: list[str] = []
    for what, key in _keys(target, environ, ask, tried):
        try:
            if not transport.auth_publickey(target.user, key):
                return
        except paramiko.BadAuthenticationType as error:
            if "publickey" not in error.allowed_types:
                raise HostDenied(
                    "log in to", target.name, "it takes no keys, only " + ", ".join(error.allowed_types)
                ) from None
        except paramiko.AuthenticationException:
            tried.append(what)
    hint = f"does `ssh {target.name}` work? An encrypted key has to be in the agent: ssh-add FILE"
    raise HostDenied("log in to", f"{target.name} as {target.user}", _refused(tried), hint)


def _refused(tried: Sequence[str]) -> str:
    return "it accepts none of " + ", ".join(tried) if tried else "there is no key to log in with"


def _keys(target: Target, environ: Mapping[str, str], ask: Ask | None, tried: list[str]) -> Iterator[tuple[str, PKey]]:
    """Give the agent's keys, then those in files; an encrypted one is asked for once, when there is a terminal."""
    import paramiko

    if not target.identities_only and (where := environ.get("SSH_AUTH_SOCK")):
        yield from _agent_keys(where)
    for path in target.key_files:
        if not path.is_file():
            continue
        try:
            yield str(path), _load(path, None)
        except paramiko.PasswordRequiredException:
            if ask is None:
                tried.append(f"{path} (encrypted)")
                continue
            yield from _unlocked(path, ask, tried)
        except (paramiko.SSHException, OSError, ValueError) as error:
            tried.append(f"{path} ({error})")


def _unlocked(path: Path, ask: Ask, tried: list[str]) -> Iterator[tuple[str, PKey]]:
    try:
        yield str(path), _load(path, ask.passphrase(path))
    except Exception:  # what a wrong passphrase raises differs with the key's format
        tried.append(f"{path} (wrong passphrase)")


def _load(path: Path, passphrase: str | None) -> PKey:
    import paramiko

    try:
        return paramiko.PKey.from_path(path, passphrase.encode() if passphrase else None)
    except TypeError as error:  # cryptography's own way to say it
        raise paramiko.PasswordRequiredException(str(error)) from error


def _agent_keys(where: str) -> Iterator[tuple[str, PKey]]:
    import paramiko

    try:
        agent = _agent(where)
    except (paramiko.SSHException, OSError):
        return
    try:
        for key in agent.get_keys():
            yield f"the agent's {key.get_name()}", key
    finally:
        agent.close()


def _agent(where: str) -> Agent:
    """Connect to the agent at `where`; paramiko knows only the environment's."""
    import paramiko

    before = os.environ.get("SSH_AUTH_SOCK")
    os.environ["SSH_AUTH_SOCK"] = where
    try:
        return paramiko.Agent()
    finally:
        if before is None:
            del os.environ["SSH_AUTH_SOCK"]
        else:
            os.environ["SSH_AUTH_SOCK"] = before


def _close(below: Sequence[Any]) -> None:
    for each in below:
        with suppress(Exception):
            each.close()
