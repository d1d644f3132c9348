"""The look at a machine, at this very one: what is measured is true, whichever Python is found there."""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import psutil
import pytest

from gpujob.core.errors import HostError
from gpujob.core.layout import MachinePaths
from gpujob.hosts import probe as probes
from gpujob.hosts.probe import probe
from gpujob.hosts.survey import Survey
from gpujob.hosts.trial import matmul
from gpujob.transport.local import Local

TOOLS = ("sh", "cat", "printf", "mkdir", "ln", "mv", "rm", "find", "env")


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """The home of a user with an odd name, on a machine that has only what is put into its `bin`."""
    home = tmp_path / "it's my home"
    (home / "bin").mkdir(parents=True)
    for tool in TOOLS:
        (home / "bin" / tool).symlink_to(str(shutil.which(tool)))
    return home


@pytest.fixture
def machine(there: Path, monkeypatch: pytest.MonkeyPatch) -> Local:
    monkeypatch.setattr(probes, "PYTHONS", tuple(name for name in probes.PYTHONS if not name.startswith("/")))
    program(there, "python3", f'exec {sys.executable} "$@"')
    return Local({"HOME": str(there), "PATH": str(there / "bin")}, home=there)


def program(there: Path, name: str, text: str) -> None:
    path = there / "bin" / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_a_machine_is_what_it_is(machine: Local, there: Path) -> None:
    survey = probe(machine)
    assert survey.root == str(there / ".gpujob")
    assert not (there / ".gpujob").exists(), "it left nothing"
    assert survey.ram == psutil.virtual_memory().total
    assert survey.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert survey.libc == os.confstr("CS_GNU_LIBC_VERSION")
    assert survey.disk_free == pytest.approx(shutil.disk_usage(there).free, rel=0.1)
    assert survey.ahead == 0.0
    assert (survey.system, survey.uid, survey.gpus, survey.engines) == ("Linux", os.getuid(), (), ())
    assert survey.python is not None
    assert survey.python.version == platform.python_version()


@pytest.mark.parametrize("version", ["3.6", "3.8", "3.10", "3.13"])
def test_every_python_can_say_what_it_is(machine: Local, there: Path, version: str) -> None:
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"))
    if not found:
        pytest.skip(f"there is no Python {version} here")
    program(there, "python3", f'exec "{found[0]}" "$@"')
    survey = probe(machine)
    assert [each.version.rpartition(".")[0] for each in survey.pythons] == [version]
    assert (survey.python is None) == (version in ("3.6", "3.8"))
    assert survey.cpus


def test_a_newer_python_is_found_beside_an_old_one(machine: Local, there: Path) -> None:
    program(there, "python3.13", "exit 1")
    conda = there / "miniconda3" / "bin" / "python3"
    conda.parent.mkdir(parents=True)
    (there / "bin" / "python3").rename(conda)
    assert len(probe(machine).pythons) == 1


def test_a_machine_without_any_python_says_so(machine: Local, there: Path) -> None:
    (there / "bin" / "python3").unlink()
    assert probe(machine) == Survey()


def test_the_folder_is_really_written_to(machine: Local, there: Path) -> None:
    (there / "file").touch()
    survey = probe(machine, root=str(there / "file" / "root"))
    assert (survey.root_error, survey.disk_free) == ("Not a directory", None)
    before = sorted(there.iterdir())
    assert probe(machine, root=str(there / "a" / "b")).root_error == ""
    assert sorted(there.iterdir()) == before
    assert probe(machine, root="/proc/gpujob").root_error != ""


def test_jobs_that_are_there_are_seen_with_their_agents(machine: Local, there: Path) -> None:
    root = MachinePaths(there / ".gpujob")
    for job, attempt in (("a-1", 1), ("a-1", 2), ("b-2", 1)):
        path = root.job(job).attempt(attempt).pid
        path.parent.mkdir(parents=True)
        path.touch()
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        found = probe(machine).jobs
    assert [(each.job_id, each.agents) for each in found] == [("a-1", 0), ("b-2", 1)]


def test_cards_are_asked_for_at_their_driver(machine: Local, there: Path) -> None:
    program(there, "nvidia-smi", 'echo "NVIDIA RTX 4090, 24564, 550.54"; echo "Odd, One, [N/A], 550.54"')
    first, second = probe(machine).gpus
    assert (first.name, first.memory, first.driver) == ("NVIDIA RTX 4090", 24564 << 20, "550.54")
    assert (second.name, second.memory) == ("Odd, One", None)
    program(there, "nvidia-smi", 'echo "Failed to initialize NVML: Driver/library version mismatch"; exit 18')
    survey = probe(machine)
    assert (survey.gpus, survey.gpu_error) == ((), "Failed to initialize NVML: Driver/library version mismatch")


def test_engines_are_asked_whether_they_answer(machine: Local, there: Path) -> None:
    info = '{"ServerVersion": "27.1", "DockerRootDir": "/", "Runtimes": {"nvidia": {}}}'
    program(there, "docker", f"echo '{info}'")
    program(there, "podman", """echo '{"version": {"Version": "4.3"}, "store": {"graphRoot": "/nowhere"}}'""")
    docker, podman = probe(machine).engines
    assert (docker.answers, docker.version, docker.nvidia, bool(docker.disk_free)) == (True, "27.1", True, True)
    assert (podman.answers, podman.version, podman.disk_free) == (True, "4.3", None)
    program(there, "docker", "echo '{\"ServerErrors\": [\"x\"]}'; echo 'permission denied' >&2; exit 1")
    (docker, _) = probe(machine).engines
    assert (docker.answers, docker.said) == (False, "permission denied")


class _Store(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response_only(403)
        self.send_header("Date", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def store() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), _Store) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_refusal_proves_the_way_to_the_store(machine: Local, store: HTTPServer) -> None:
    reach = probe(machine, store=f"http://127.0.0.1:{store.server_port}").store
    assert reach is not None
    assert (reach.error, reach.distrust) == ("", "")
    assert reach.connect is not None
    assert reach.answer is not None
    assert reach.ahead is not None
    assert abs(reach.ahead) > 1e6


def test_a_certificate_that_is_not_trusted_is_told_and_no_refusal(
    machine: Local, store: HTTPServer, tmp_path: Path
) -> None:
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    words = ["-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", "-x509", *words], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    store.socket = context.wrap_socket(store.socket, server_side=True)
    reach = probe(machine, store=f"https://127.0.0.1:{store.server_port}").store
    assert reach is not None
    assert "self-signed" in reach.distrust or "self signed" in reach.distrust
    assert (reach.error, reach.answer is None) == ("", False)


def test_a_store_that_is_not_there_is_an_error(machine: Local, store: HTTPServer) -> None:
    store.server_close()
    reach = probe(machine, store=f"http://127.0.0.1:{store.server_port}").store
    assert reach is not None
    assert reach.error == "Connection refused"


@pytest.mark.parametrize(
    "says", ["echo hello", "yes 'gpujob-survey {' | head -c 3000000", "exit 3", "exec cat /bin/sh"]
)
def test_a_machine_that_talks_nonsense_is_a_host_error(machine: Local, there: Path, says: str) -> None:
    program(there, "python3", f'case "$1" in -c) exit 0;; esac; {says.replace("yes", str(shutil.which("yes")))}')
    (there / "bin" / "head").symlink_to(str(shutil.which("head")))
    with pytest.raises(HostError, match="cannot look at this machine: its answer cannot be used") as caught:
        probe(machine)
    assert len(str(caught.value)) < 3000


def test_matrices_are_really_multiplied(machine: Local) -> None:
    pytest.importorskip("torch")
    trial = matmul(machine, sys.executable, device="cpu", size=128, seconds=0.05)
    assert trial.device == "cpu"
    assert trial.teraflops > 0
    assert trial.right
    with pytest.raises(HostError, match="cannot multiply matrices on this machine"):
        matmul(machine, sys.executable, device="no-such", size=128)
