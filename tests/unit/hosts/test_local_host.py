from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path

import pytest

from gpujob import files
from gpujob.core.errors import HostError
from gpujob.core.layout import HomePaths, HostPaths
from gpujob.core.spec import Host as HostSpec
from gpujob.hosts.local import LocalHost
from gpujob.hosts.needs import Needs, warnings
from gpujob.hosts.open import open_host
from gpujob.hosts.protocol import Presence
from gpujob.hosts.ssh import SshHost
from gpujob.transport.local import Local


@pytest.fixture
def host(tmp_path):
    return LocalHost(HomePaths(tmp_path / "home"), price_per_hour=1.5)


@pytest.fixture
def job_id():
    return f"test-{secrets.token_hex(6)}"


def test_a_rental_is_a_folder_and_asking_twice_gives_the_same(host, job_id):
    rental = host.acquire(job_id)
    assert Path(rental.root).is_dir()
    assert rental.price_per_hour == 1.5
    assert host.acquire(job_id) == rental
    assert host.look(rental) is Presence.HERE


def test_a_deleted_folder_is_a_machine_that_is_gone(host, job_id):
    rental = host.acquire(job_id)
    shutil.rmtree(rental.root)
    assert host.look(rental) is Presence.GONE


def test_a_new_folder_in_its_place_is_another_machine(host, job_id):
    old = host.acquire(job_id)
    shutil.rmtree(old.root)
    new = host.acquire(job_id)
    assert new.ref != old.ref
    assert (host.look(old), host.look(new)) == (Presence.GONE, Presence.HERE)
    host.release(job_id, old, 1)
    assert host.look(new) is Presence.HERE, "releasing the old one left the new one alone"


def test_release_ends_the_job_and_deletes_the_folder(host, job_id):
    rental = host.acquire(job_id)
    HostPaths(Path(rental.root)).attempt(1).work.mkdir(parents=True)
    environ = {**os.environ, "GPUJOB_ID": job_id, "GPUJOB_ATTEMPT": "1"}
    with subprocess.Popen(["sleep", "1000"], env=environ, start_new_session=True) as left:
        host.release(job_id, rental, 1)
        left.wait(30)
    assert not Path(rental.root).exists()
    assert host.look(rental) is Presence.GONE
    host.release(job_id, rental, 1)


def test_release_ends_the_job_although_its_folder_is_gone(host, job_id):
    rental = host.acquire(job_id)
    shutil.rmtree(rental.root)
    environ = {**os.environ, "GPUJOB_ID": job_id, "GPUJOB_ATTEMPT": "1"}
    with subprocess.Popen(["sleep", "1000"], env=environ, start_new_session=True) as left:
        host.release(job_id, rental, 1)
        left.wait(30)


def test_a_release_cut_short_is_done_again(host, job_id, monkeypatch):
    rental = host.acquire(job_id)
    HostPaths(Path(rental.root)).attempt(1).work.mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setattr(files, "remove_tree", refuse)
        with pytest.raises(HostError, match="busy"):
            host.release(job_id, rental, 1)
    assert host.look(rental) is Presence.HERE
    host.release(job_id, rental, 1)
    assert not Path(rental.root).exists()


def refuse(folder: Path) -> None:
    raise OSError(16, "busy")


def test_a_disk_that_refuses_is_a_host_error(tmp_path, job_id):
    (tmp_path / "file").touch()
    host = LocalHost(HomePaths(tmp_path / "file"))
    with pytest.raises(HostError, match="cannot make"):
        host.acquire(job_id)


def test_a_damaged_name_is_nobodys(host, job_id):
    rental = host.acquire(job_id)
    HostPaths(Path(rental.root)).rental.write_bytes(b"{")
    assert host.look(rental) is Presence.GONE
    assert host.acquire(job_id).ref != rental.ref


def test_job_yaml_names_a_host(tmp_path):
    home = HomePaths(tmp_path)
    assert open_host(HostSpec(price_per_hour=2), home) == LocalHost(home, 2)
    elsewhere, way, needs = HostSpec(ssh="gpu-box"), Local({}), Needs(train=True)
    assert open_host(elsewhere, home, way, needs) == SshHost(elsewhere, way, needs)


def test_this_machine_needs_no_look(host):
    assert warnings(host.check(), Needs(train=True, contained=True)) == ()
    assert not host.home.root.exists()
