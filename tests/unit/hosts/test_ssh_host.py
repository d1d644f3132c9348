"""A machine of one's own as a host: over a home of its own on this computer, and over a real sshd."""

from __future__ import annotations

import secrets
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpujob.core.errors import HostDenied, HostError, HostUnreachable
from gpujob.core.layout import HomePaths, HostPaths, MachinePaths
from gpujob.core.spec import Host as HostSpec
from gpujob.hosts.needs import Needs
from gpujob.hosts.open import open_host
from gpujob.hosts.protocol import Presence, Rental
from gpujob.hosts.ssh import SshHost
from gpujob.transport.local import Local
from gpujob.transport.open import open_transport
from gpujob.transport.protocol import Completed, Transport
from support.sshd import Sshd

TOO_MUCH = Needs(disk_bytes=10**18)


@pytest.fixture
def there(tmp_path: Path) -> Path:
    home = tmp_path / "it's my home"
    home.mkdir()
    return home


@pytest.fixture
def machine(there: Path) -> Local:
    return Local({"HOME": str(there), "PATH": "/usr/bin:/bin"}, "gpu-box", there)


@pytest.fixture
def host(machine: Local) -> SshHost:
    return SshHost(HostSpec(ssh="gpu-box", price_per_hour=0.5), machine, Needs())


@pytest.fixture
def job_id() -> str:
    return f"test-{secrets.token_hex(6)}"


@dataclass
class Answering:
    """A machine that answers what it likes."""

    machine: Transport
    answers: list[Completed | HostError] = field(default_factory=list)
    name: str = "gpu-box"

    def open(self) -> None:
        pass

    def run(self, argv: object, **options: object) -> Completed:
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, HostError):
            raise answer
        return answer or self.machine.run(argv, **options)  # type: ignore[arg-type]


def said(out: bytes = b"", error: bytes = b"", code: int = 0) -> Completed:
    return Completed(("sh",), code, out, error)


def test_a_rental_is_a_folder_and_asking_twice_gives_the_same(host: SshHost, there: Path, job_id: str) -> None:
    rental = host.acquire(job_id)
    paths = MachinePaths(there / ".gpujob").job(job_id)
    assert Path(rental.root) == paths.root
    assert rental.price_per_hour == 0.5
    assert rental.ref.startswith("gpu-box (")
    assert [each.name for each in paths.root.iterdir()] == [paths.rental.name]
    assert paths.root.stat().st_mode & 0o077 == 0, "nobody else's to look into"
    assert host.acquire(job_id) == rental
    assert host.look(rental) is Presence.HERE


def test_the_spec_says_where_everything_lies(machine: Local, tmp_path: Path, job_id: str) -> None:
    spec = HostSpec(ssh="gpu-box", root=f"{tmp_path}/a b")
    host = open_host(spec, HomePaths(tmp_path / "home"), machine, Needs())
    assert host.acquire(job_id).root == f"{tmp_path}/a b/jobs/{job_id}"


def test_many_clients_at_once_get_one_rental(host: SshHost, job_id: str) -> None:
    gate = threading.Barrier(6)

    def acquire(_: int) -> Rental:
        gate.wait()
        return host.acquire(job_id)

    with ThreadPoolExecutor(6) as pool:
        assert len({rental.ref for rental in pool.map(acquire, range(6))}) == 1


def test_what_a_job_needs_is_said_before_anything_is_there(machine: Local, there: Path, job_id: str) -> None:
    host = SshHost(HostSpec(ssh="gpu-box"), machine, TOO_MUCH)
    for ask in (host.check, lambda: host.acquire(job_id)):
        with pytest.raises(HostError, match=r"(?s)cannot use gpu-box: .* and the job needs 1000000.0 TB"):
            ask()
    assert list(there.iterdir()) == []
    assert SshHost(host.spec, machine, Needs()).check().root == str(there / ".gpujob")


def test_a_job_that_is_there_is_found_on_a_full_disk(host: SshHost, machine: Local, job_id: str) -> None:
    rental = host.acquire(job_id)
    assert SshHost(host.spec, machine, TOO_MUCH).acquire(job_id) == rental


def test_a_deleted_folder_is_a_machine_that_is_gone(host: SshHost, job_id: str) -> None:
    rental = host.acquire(job_id)
    shutil.rmtree(rental.root)
    assert host.look(rental) is Presence.GONE
    shutil.rmtree(Path(rental.root).parents[1])
    assert host.look(rental) is Presence.GONE
    host.release(job_id, rental, 1)


def test_a_new_folder_in_its_place_is_another_machine(host: SshHost, job_id: str) -> None:
    old = host.acquire(job_id)
    shutil.rmtree(old.root)
    new = host.acquire(job_id)
    assert (host.look(old), host.look(new)) == (Presence.GONE, Presence.HERE)
    host.release(job_id, old, 1)
    assert host.look(new) is Presence.HERE, "releasing the old one left the new one alone"


@pytest.mark.parametrize(
    "answer",
    [
        HostUnreachable("run", "cat", "no route"),
        HostDenied("trust", "gpu-box", "its key has changed"),
        said(error=b"cat: rental.json: Input/output error\n", code=1),
        said(error=b"sh: 0: Cannot fork\n", code=2),
        said(error=b"cat: rental.json: Stale file handle\n", code=1),
        said(out=b"Your container is starting...\n"),
        said(out=b""),
        said(out=b"{" * 100_000),
        said(out=b"\xff\x00" * 1000),
        said(out=Rental(ref="\x1b[2J" * 5, root="/").encode()),
        said(out=Rental(ref="x" * 5000, root="/").encode()),
    ],
)
def test_only_a_clear_answer_says_that_a_rental_is_gone(
    host: SshHost, machine: Local, job_id: str, answer: Completed | HostError
) -> None:
    rental = host.acquire(job_id)
    assert SshHost(host.spec, Answering(machine, [answer]), Needs()).look(rental) is Presence.UNREACHABLE  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "missing", [b"cat: /x/rental.json: No such file or directory\n", b"cat: /x: Not a directory\n"]
)
def test_a_file_that_is_not_there_is_proof(host: SshHost, machine: Local, job_id: str, missing: bytes) -> None:
    rental = host.acquire(job_id)
    answering = Answering(machine, [said(error=missing, code=1)])
    assert SshHost(host.spec, answering, Needs()).look(rental) is Presence.GONE  # type: ignore[arg-type]


@pytest.mark.parametrize("content", [b"{", b"\x00" * 5000, b""])
def test_a_damaged_name_is_nobodys(host: SshHost, job_id: str, content: bytes) -> None:
    rental = host.acquire(job_id)
    HostPaths(Path(rental.root)).rental.write_bytes(content)
    assert host.look(rental) is Presence.UNREACHABLE
    new = host.acquire(job_id)
    assert (host.look(new), host.look(rental)) == (Presence.HERE, Presence.GONE)


def test_a_symbolic_link_is_neither_read_nor_written_through(host: SshHost, there: Path, job_id: str) -> None:
    rental = host.acquire(job_id)
    other = there / "precious"
    path = HostPaths(Path(rental.root)).rental
    path.rename(other)
    path.symlink_to(other)
    before = other.read_bytes()
    assert host.look(rental) is Presence.UNREACHABLE
    assert host.acquire(job_id).ref != rental.ref
    assert (other.read_bytes(), path.is_symlink()) == (before, False)


def test_the_machine_does_not_say_where_we_write_or_what_it_costs(host: SshHost, job_id: str) -> None:
    rental = host.acquire(job_id)
    lie = rental.model_copy(update={"root": "/", "price_per_hour": 0.0, "host": 7})
    HostPaths(Path(rental.root)).rental.write_bytes(lie.encode())
    assert host.acquire(job_id) == rental


def test_release_deletes_the_folder_and_nothing_else(host: SshHost, job_id: str) -> None:
    other = host.acquire(f"{job_id}-other")
    rental = host.acquire(job_id)
    work = HostPaths(Path(rental.root)).attempt(1).work
    work.mkdir(parents=True)
    (work / "-rf *\n'").touch()
    (Path(rental.root) / ".hidden").touch()
    (work / "link").symlink_to(other.root)
    host.release(job_id, rental, 1)
    assert not Path(rental.root).exists()
    assert host.look(rental) is Presence.GONE
    assert host.look(other) is Presence.HERE
    host.release(job_id, rental, 1)


def test_release_lets_the_script_there_end_the_job_first(host: SshHost, there: Path, job_id: str) -> None:
    rental = host.acquire(job_id)
    HostPaths(Path(rental.root)).onhost.write_text(f'echo "$@" > "{there}/said"\n')
    host.release(job_id, rental, 3)
    assert (there / "said").read_text() == f"release {job_id} 3\n"
    assert not Path(rental.root).exists()


def test_a_release_that_failed_is_said_and_done_again(host: SshHost, there: Path, job_id: str) -> None:
    rental = host.acquire(job_id)
    onhost = HostPaths(Path(rental.root)).onhost
    onhost.write_text("echo 'process 7 does not end' >&2; exit 1\n")
    with pytest.raises(HostError, match="cannot release gpu-box: process 7 does not end"):
        host.release(job_id, rental, 1)
    assert host.look(rental) is Presence.HERE
    onhost.write_text("")
    host.release(job_id, rental, 1)
    assert host.look(rental) is Presence.GONE


def test_a_release_that_is_not_confirmed_is_not_done(host: SshHost, machine: Local, job_id: str) -> None:
    rental = host.acquire(job_id)
    here, lost = said(out=rental.encode()), HostUnreachable("run", "sh", "the connection broke")
    for answers, problem in (
        ([lost], "connection broke"),
        ([here, lost], "connection broke"),
        ([here, said()], "still there"),
    ):
        with pytest.raises(HostError, match=problem):
            SshHost(host.spec, Answering(machine, answers), Needs()).release(job_id, rental, 1)  # type: ignore[arg-type]
    assert host.look(rental) is Presence.HERE


@pytest.mark.parametrize("root", ["/", "/home/me", "/jobs/../jobs/{job}", "jobs/{job}", "/x/jobs/another", ""])
def test_nothing_is_deleted_but_a_jobs_own_folder(host: SshHost, job_id: str, root: str) -> None:
    rental = Rental(ref="gpu-box (1)", root=root.format(job=job_id))
    with pytest.raises(HostError, match="not a folder of the job"):
        host.release(job_id, rental, 1)


def test_a_machine_that_says_nothing_of_its_home_is_not_used(machine: Local, job_id: str) -> None:
    host = SshHost(HostSpec(ssh="x"), Answering(machine, [said(out=b"gpujob-survey {}\n")]), Needs())  # type: ignore[arg-type]
    with pytest.raises(HostError, match=r"Python 3.10 or newer is needed"):
        host.acquire(job_id)


@pytest.fixture
def over_ssh(sshd: Sshd, tmp_path: Path) -> Iterator[SshHost]:
    spec = HostSpec(ssh=sshd.alias, price_per_hour=0.5)
    transport = open_transport(spec, HomePaths(tmp_path / "own"), sshd.environ)
    yield SshHost(spec, transport, Needs())
    transport.close()


@pytest.mark.real
def test_over_ssh_from_acquire_to_release(over_ssh: SshHost, sshd: Sshd, job_id: str) -> None:
    rental = over_ssh.acquire(job_id)
    assert Path(rental.root) == MachinePaths(sshd.there / ".gpujob").job(job_id).root
    assert over_ssh.acquire(job_id) == rental
    sshd.move()
    assert over_ssh.look(rental) is Presence.HERE
    over_ssh.release(job_id, rental, 1)
    assert not Path(rental.root).exists()
    assert over_ssh.look(rental) is Presence.GONE


@pytest.mark.real
def test_over_ssh_a_machine_that_is_off_is_unreachable(over_ssh: SshHost, sshd: Sshd, job_id: str) -> None:
    rental = over_ssh.acquire(job_id)
    sshd.stop()
    assert over_ssh.look(rental) is Presence.UNREACHABLE
    for ask in (over_ssh.check, lambda: over_ssh.acquire(job_id), lambda: over_ssh.release(job_id, rental, 1)):
        with pytest.raises(HostUnreachable):
            ask()


@pytest.mark.real
def test_over_ssh_a_changed_key_proves_nothing_about_the_job(over_ssh: SshHost, sshd: Sshd, job_id: str) -> None:
    rental = over_ssh.acquire(job_id)
    sshd.stop()
    sshd.change_key()
    sshd.start()
    assert over_ssh.look(rental) is Presence.UNREACHABLE
    for ask in (over_ssh.check, lambda: over_ssh.acquire(job_id), lambda: over_ssh.release(job_id, rental, 1)):
        with pytest.raises(HostDenied):
            ask()
