"""What only SSH has: the right machine, the right key, a noisy login, connections that break."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpujob.core.errors import HostDenied, HostUnreachable, UsageError
from gpujob.core.layout import HomePaths
from gpujob.core.spec import Host
from gpujob.transport.config import resolve
from gpujob.transport.open import open_transport
from gpujob.transport.protocol import Transport
from support.desk import until
from support.sshd import Sshd, free_port, keygen

pytestmark = pytest.mark.real

Reach = Callable[..., Transport]


@dataclass
class Person:
    """Somebody at a terminal, who gives the same answer every time."""

    accepts: bool = True
    secret: str = ""
    asked: list[str] = field(default_factory=list)

    def accept_key(self, host: str, kind: str, fingerprint: str) -> bool:
        self.asked.append(fingerprint)
        return self.accepts

    def passphrase(self, path: Path) -> str:
        self.asked.append(path.name)
        return self.secret


@pytest.fixture
def reach(sshd: Sshd, tmp_path: Path) -> Iterator[Reach]:
    """Give ways to the server, closed at the end."""
    made: list[Transport] = []

    def open_it(ask: Person | None = None, **host: str) -> Transport:
        spec = Host(**{"ssh": sshd.alias, **host})
        made.append(open_transport(spec, HomePaths(tmp_path / "own"), sshd.environ, ask))
        return made[-1]

    yield open_it
    for each in made:
        each.close()


def works(machine: Transport) -> bool:
    return machine.run(["echo", "hello"]).stdout == b"hello\n"


def test_a_banner_and_a_noisy_login_are_not_in_the_output(sshd: Sshd, reach: Reach) -> None:
    sshd.stop()
    sshd.banner, sshd.noise = "Welcome to the cloud!\n" * 50, "last login: never, "
    sshd.start()
    done = reach().run(["sh", "-c", "printf out; printf err >&2"])
    assert (done.stdout, done.stderr) == (b"out", b"err")


def test_an_unknown_key_is_refused_with_the_way_out(sshd: Sshd, reach: Reach) -> None:
    sshd.forget()
    with pytest.raises(HostDenied) as caught:
        reach().open()
    assert sshd.fingerprint() in str(caught.value)
    assert f"gpujob host check {sshd.alias}" in caught.value.hint


def test_a_key_a_person_accepts_is_known_from_then_on(sshd: Sshd, reach: Reach, tmp_path: Path) -> None:
    sshd.forget()
    with pytest.raises(HostDenied):
        reach(Person(accepts=False)).open()
    person = Person()
    assert works(reach(person))
    assert person.asked == [sshd.fingerprint()]
    assert works(reach())
    assert not (sshd.dot_ssh / "known_hosts").exists(), "the user's own file is not ours to write"
    assert (HomePaths(tmp_path / "own").known_hosts.stat().st_mode & 0o777) == 0o600


@pytest.mark.parametrize("accepted", [False, True])
def test_a_changed_key_never_gets_through(accepted: bool, sshd: Sshd, reach: Reach) -> None:
    if accepted:
        sshd.forget()
        assert works(reach(Person()))
    sshd.stop()
    sshd.change_key()
    sshd.start()
    person = Person()
    with pytest.raises(HostDenied, match=r"known_hosts:1 knows another"):
        reach(person).open()
    assert person.asked == []


def test_a_fingerprint_in_the_spec_decides_alone(sshd: Sshd, reach: Reach) -> None:
    right = sshd.fingerprint()
    sshd.forget()
    assert works(reach(host_key=right))
    sshd.trust()
    with pytest.raises(HostDenied, match="host_key says"):
        reach(host_key="SHA256:" + "A" * 43).open()


def test_hashed_names_and_several_kinds_of_key_are_understood(sshd: Sshd, reach: Reach, tmp_path: Path) -> None:
    keygen(tmp_path / "another", kind="ecdsa")
    kind, key = (tmp_path / "another.pub").read_text().split()[:2]
    known = sshd.dot_ssh / "known_hosts"
    known.write_text(known.read_text() + f"[127.0.0.1]:1 {kind} {key}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known)], check=True, capture_output=True)
    known.write_text("# a comment\n\nnonsense\n" + known.read_text())
    assert "127.0.0.1" not in known.read_text()
    assert works(reach())


def test_a_revoked_key_is_refused(sshd: Sshd, reach: Reach) -> None:
    known = sshd.dot_ssh / "known_hosts"
    known.write_text("@revoked " + known.read_text() + known.read_text())
    with pytest.raises(HostDenied):
        reach(Person()).open()


def test_an_encrypted_key_is_asked_for_or_named(sshd: Sshd, reach: Reach) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-N", "sesame", "-f", str(sshd.dot_ssh / "id_ed25519")],
        check=True,
        capture_output=True,
    )
    with pytest.raises(HostDenied, match=r"id_ed25519 \(encrypted\)") as caught:
        reach().open()
    assert "ssh-add" in caught.value.hint
    person = Person(secret="sesame")
    machine = reach(person)
    assert works(machine)
    assert works(machine)
    assert person.asked == ["id_ed25519"]
    with pytest.raises(HostDenied) as caught:
        reach(Person(secret="guess")).open()
    assert "guess" not in str(caught.value)


def test_the_agents_keys_are_tried(sshd: Sshd, tmp_path: Path) -> None:
    said = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True).stdout
    agent = dict(part.split("=", 1) for part in said.replace("\n", "").split(";") if "=" in part)
    try:
        environ = {**sshd.environ, "SSH_AUTH_SOCK": agent["SSH_AUTH_SOCK"]}
        subprocess.run(
            ["ssh-add", "-q", str(sshd.dot_ssh / "id_ed25519")], env=environ, check=True, capture_output=True
        )
        (sshd.dot_ssh / "id_ed25519").unlink()
        machine = open_transport(Host(ssh=sshd.alias), HomePaths(tmp_path / "own"), environ)
        assert works(machine)
        machine.close()
    finally:
        subprocess.run(["kill", agent["SSH_AGENT_PID"]], check=True)


def test_nobody_lets_us_in_without_a_key(sshd: Sshd, reach: Reach) -> None:
    (sshd.dot_ssh / "id_ed25519").unlink()
    with pytest.raises(HostDenied, match="no key"):
        reach().open()
    keygen(sshd.dot_ssh / "id_ed25519")
    with pytest.raises(HostDenied, match="id_ed25519"):
        reach().open()


def test_nobody_there_is_unreachable(sshd: Sshd, reach: Reach) -> None:
    sshd.stop()
    with pytest.raises(HostUnreachable, match=str(sshd.port)):
        reach().open()


def test_another_port_after_a_restart_is_found(sshd: Sshd, reach: Reach) -> None:
    machine = reach()
    assert works(machine)
    sshd.move()
    until(lambda: not machine.connected, "the end of the connection", 20)
    assert works(machine)


def test_a_command_whose_connection_breaks_is_unreachable_and_not_repeated(sshd: Sshd, reach: Reach) -> None:
    machine, mark = reach(), sshd.there / "mark"
    caught: list[Exception] = []

    def run() -> None:
        try:
            machine.run(["sh", "-c", 'echo x >> "$1"; sleep 60', "sh", str(mark)])
        except HostUnreachable as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(mark.exists, "the command", 20)
    sshd.drop()
    thread.join(20)
    assert caught
    assert works(machine)
    assert mark.read_text() == "x\n"


def test_following_loses_and_repeats_nothing_over_broken_connections(sshd: Sshd, reach: Reach) -> None:
    path, heard = sshd.there / "log", bytearray()
    wanted = b"".join(b"line %d\n" % number for number in range(60))

    def listen(machine: Transport) -> None:
        for data in machine.follow(str(path)):
            heard.extend(data)
            if len(heard) >= len(wanted):
                return

    thread = threading.Thread(target=listen, args=(reach(),), daemon=True)
    thread.start()
    for number in range(60):
        with path.open("ab") as file:
            file.write(b"line %d\n" % number)
        if number % 20 == 10:
            so_far = path.stat().st_size
            until(lambda so_far=so_far: len(heard) >= so_far, "what was written", 30)
            sshd.drop()
    thread.join(60)
    assert bytes(heard) == wanted


def test_through_a_jump_host(sshd: Sshd, reach: Reach, tmp_path: Path) -> None:
    inner = Sshd(tmp_path / "inner")
    (inner.folder / "authorized_keys").write_bytes((sshd.folder / "authorized_keys").read_bytes())
    inner.start()
    try:
        inner_key = (inner.dot_ssh / "known_hosts").read_text()
        known = sshd.dot_ssh / "known_hosts"
        known.write_text(known.read_text() + inner_key)
        config = sshd.dot_ssh / "config"
        config.write_text(
            config.read_text() + f"Host inside\n  HostName 127.0.0.1\n  Port {inner.port}\n  ProxyJump {sshd.alias}\n"
        )
        machine = reach(ssh="inside")
        assert machine.run(["sh", "-c", 'echo "$HOME"']).text == str(inner.there)
        known.write_text(inner_key)
        with pytest.raises(HostDenied, match=sshd.alias):
            reach(ssh="inside").open()
    finally:
        inner.stop()


def test_no_thread_is_left(sshd: Sshd, reach: Reach) -> None:
    before = set(threading.enumerate())
    machine = reach()
    assert works(machine)
    machine.close()
    until(lambda: set(threading.enumerate()) <= before, "the end of the threads", 10)


def test_an_address_is_taken_apart(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(
        "Host gpu\n  HostName 203.0.113.7\n  Port 40022\n  User ubuntu\n  IdentityFile ~/.ssh/a b\n"
        "  UserKnownHostsFile ~/known\n  IdentitiesOnly yes\n  ProxyJump one,two\n"
    )
    environ = {"HOME": str(tmp_path), "USER": "me"}
    gpu = resolve("gpu", environ)
    assert (gpu.host, gpu.port, gpu.user, gpu.jumps) == ("203.0.113.7", 40022, "ubuntu", ("one", "two"))
    assert gpu.identities_only
    assert gpu.known_hosts[0] == tmp_path / "known"
    other = resolve("root@203.0.113.9:22022", environ)
    assert (other.host, other.port, other.user, other.jumps) == ("203.0.113.9", 22022, "root", ())
    assert resolve("[::1]:99", environ).host == "::1"
    for wrong in ("a b", "x:y", "", "-oProxyCommand=x y"):
        with pytest.raises(UsageError):
            resolve(wrong, environ)


def test_a_port_nobody_listens_on(tmp_path: Path) -> None:
    machine = open_transport(Host(ssh=f"me@127.0.0.1:{free_port()}"), HomePaths(tmp_path), {"HOME": str(tmp_path)})
    with pytest.raises(HostUnreachable):
        machine.run(["true"])
