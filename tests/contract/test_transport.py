"""What every way to a machine promises (transport/protocol.py), over each of them."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpujob.core.errors import HostError, HostUnreachable
from gpujob.core.layout import HomePaths
from gpujob.core.spec import Host
from gpujob.transport.open import open_transport
from gpujob.transport.protocol import Transport
from support.desk import until
from support.sshd import Sshd

pytestmark = pytest.mark.real

HOSTILE = ["", " ", "a b", "it's", '"', "'; echo foo", "$HOME", "`id`", "a\nb", "\\", "*", "~", "#x", "é漢", "-n"]
HOSTILE += ["x" * 5000]


@pytest.fixture(params=["local", "ssh"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Transport]:
    if request.param == "local":
        (tmp_path / "there").mkdir()
        environ = {"HOME": str(tmp_path / "there"), "PATH": os.environ["PATH"]}
        yield open_transport(Host(), HomePaths(tmp_path / "own"), environ)
        return
    server: Sshd = request.getfixturevalue("sshd")
    made = open_transport(Host(ssh=server.alias), HomePaths(tmp_path / "own"), server.environ)
    yield made
    made.close()


def home(machine: Transport) -> Path:
    return Path(machine.run(["sh", "-c", 'echo "$HOME"']).text)


def test_arguments_arrive_exactly(machine: Transport) -> None:
    done = machine.run(["printf", "%s\\0", *HOSTILE])
    assert done.stdout.decode().split("\0")[:-1] == HOSTILE
    assert (done.exit, done.stderr) == (0, b"")


def test_a_command_that_fails_is_a_result(machine: Transport) -> None:
    done = machine.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.exit, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    with pytest.raises(HostError, match="err"):
        done.check("try", "it")
    assert machine.run(["no-such-program"]).exit == 127


def test_a_signal_is_a_negative_exit(machine: Transport) -> None:
    assert machine.run(["sh", "-c", "kill -9 $$"]).exit == -9


def test_a_lot_goes_both_ways_at_once(machine: Transport) -> None:
    data = os.urandom(1 << 20) * 24
    assert machine.run(["cat"], input=data).stdout == data
    assert machine.run(["cat"], input=iter([data[:7], data[7:]])).stdout == data
    loud = machine.run(["sh", "-c", "head -c 8000000 /dev/zero >&2; echo done"])
    assert (len(loud.stderr), loud.stdout) == (8_000_000, b"done\n")


def test_a_command_that_does_not_read_its_input_is_no_failure(machine: Transport) -> None:
    assert machine.run(["true"], input=b"x" * 9_000_000).exit == 0


def test_out_of_time_is_unreachable(machine: Transport) -> None:
    with pytest.raises(HostUnreachable):
        machine.run(["sleep", "60"], timeout=0.5)
    assert machine.run(["echo", "again"]).text == "again"


def test_commands_run_side_by_side(machine: Transport) -> None:
    folder = home(machine)
    script = 'touch "$1"; until [ -e "$2" ]; do sleep 0.02; done; echo "$1"'
    pairs = [(str(folder / "a"), str(folder / "b")), (str(folder / "b"), str(folder / "a"))]
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda pair: machine.run(["sh", "-c", script, "sh", *pair], timeout=30), pairs))
    assert [each.exit for each in done] == [0, 0]


def test_a_conversation(machine: Transport) -> None:
    with machine.start(["sh", "-c", 'while read -r line; do echo "<$line>"; done; echo end; exit 4']) as running:
        running.write(b"one\n")
        assert read_line(running.read) == b"<one>\n"
        running.write(b"two\n")
        assert read_line(running.read) == b"<two>\n"
        running.close_input()
        done = running.wait()
    assert (done.exit, done.stdout) == (4, b"end\n")


def read_line(read) -> bytes:  # type: ignore[no-untyped-def]
    data = b""
    while not data.endswith(b"\n"):
        data += read(1000)
    return data


def test_files_come_and_go(machine: Transport, tmp_path: Path) -> None:
    source, back = tmp_path / "source", tmp_path / "new" / "back"
    source.write_bytes(os.urandom(3_000_000))
    moved: list[int] = []
    target = home(machine) / "a folder" / "it's $HOME"
    machine.put(source, str(target), mode=0o600, progress=moved.append)
    assert (target.stat().st_mode & 0o777, sum(moved)) == (0o600, 3_000_000)
    machine.get(str(target), back)
    assert digest(back) == digest(source)
    assert [path.name for path in target.parent.iterdir()] == [target.name], "no temporary file stays"
    source.write_bytes(b"")
    machine.put(source, str(target))
    assert target.read_bytes() == b""


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("kind", ["link", "folder", "missing"])
def test_only_plain_files_are_read(kind: str, machine: Transport, tmp_path: Path) -> None:
    there = home(machine) / "thing"
    if kind == "link":
        there.symlink_to("/etc/passwd")
    elif kind == "folder":
        there.mkdir()
    (tmp_path / "target").write_text("mine")
    with pytest.raises(HostError):
        machine.get(str(there), tmp_path / "target")
    assert (tmp_path / "target").read_text() == "mine"


def test_a_file_that_cannot_be_written_is_an_error(machine: Transport, tmp_path: Path) -> None:
    (tmp_path / "source").write_text("x")
    with pytest.raises(HostError):
        machine.put(tmp_path / "source", "/proc/nothing/here")


def test_following_gives_what_is_there_and_what_comes(machine: Transport) -> None:
    path = home(machine) / "log"
    followed = machine.follow(str(path), 2)
    heard: list[bytes] = []

    def listen() -> None:
        for data in followed:
            heard.append(data)
            if b"".join(heard).endswith(b"end\n"):
                return

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    path.write_bytes(b"onetwo\n")
    until(lambda: b"".join(heard) == b"etwo\n", "the first line", 20)
    with path.open("ab") as file:
        file.write(b"end\n")
    thread.join(20)
    assert b"".join(heard) == b"etwo\nend\n"


def test_it_can_be_closed_and_used_again(machine: Transport) -> None:
    machine.close()
    machine.close()
    assert machine.run(["echo", "hello"]).text == "hello"
    machine.close()
    machine.open()
    machine.open()
