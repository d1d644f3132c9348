"""The rentals of the tests are what they claim to be; whatever breaks here breaks every test that rents one."""

from __future__ import annotations

import subprocess
import time

import pytest

from gpujob.core.errors import StoreUnavailable
from gpujob.store.cloud import CloudStore
from support.rental_images import INNER
from support.rentals import ROOT, Kind, Rental, Rentals
from support.s3 import S3Server

pytestmark = pytest.mark.real

FETCH = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=2).status)"
TORCH = "import torch, trl; print(torch.ones(2).sum().item(), torch.__file__)"


def ssh(rentals: Rentals, rental: Rental, *words: str, code: int = 0) -> str:
    options = ["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=3"]
    argv = ["ssh", "-F", str(rentals.ssh_folder / "config"), *options, rental.ssh, *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["container", "vm"])
def test_a_rental_lives_and_dies(rentals: Rentals, bridge_s3: S3Server, kind: Kind) -> None:
    began = time.monotonic()
    rental = rentals.rent(kind)
    print(f"{kind}: up after {time.monotonic() - began:.1f} s")

    assert ssh(rentals, rental, "hostname").strip() == rental.ssh
    assert ssh(rentals, rental, "python3", "-c", f"'{FETCH}'", f"{bridge_s3.endpoint}/status").strip() == "200"
    assert "/opt/stack/torch" in ssh(rentals, rental, "python3", "-c", f"'{TORCH}'")
    for missing in ("gpujob", "obstore", "blake3", "paramiko"):
        rental.run("python3", "-c", f"import {missing}", code=1)

    ssh(rentals, rental, "echo kept > kept; setsid sleep 1000 > /dev/null 2>&1 &")
    assert rental.processes("sleep 1000")
    boot_id = rental.run("cat", "/proc/sys/kernel/random/boot_id")
    rental.reboot()
    assert ssh(rentals, rental, "cat", "kept").strip() == "kept"
    assert not rental.processes("sleep 1000")
    assert (rental.run("cat", "/proc/sys/kernel/random/boot_id") != boot_id) == (kind == "vm")

    rental.release()
    ssh(rentals, rental, "true", code=255)
    rental.release()


def test_a_vm_runs_containers_with_torch_that_die_with_it(rentals: Rentals) -> None:
    rental = rentals.rent("vm")
    assert "overlay2" in rental.run("docker", "info")
    assert "/opt/stack/torch" in rental.run("docker", "run", "--rm", INNER, "python3", "-c", TORCH)
    rental.run("docker", "run", "-d", INNER, "sleep", "1000")
    assert rental.processes("sleep 1000")
    rental.reboot()
    assert not rental.processes("sleep 1000")
    assert rental.run("docker", "ps", "-aq").strip(), "its disk knows of the container"


def test_two_rentals_are_strangers_at_the_same_time(rentals: Rentals) -> None:
    one, other = rentals.rent(), rentals.rent()
    one.run("touch", "/root/mine")
    other.run("test", "-e", "/root/mine", code=1)
    assert one.host_key != other.host_key
    one.release()
    assert ssh(rentals, other, "hostname").strip() == other.ssh


def test_a_cut_wire_and_a_frozen_machine(rentals: Rentals, bridge_s3: S3Server) -> None:
    rental = rentals.rent()
    fetch = ("python3", "-c", FETCH, f"{bridge_s3.endpoint}/status")
    rental.cut()
    ssh(rentals, rental, "true", code=255)
    rental.run(*fetch, code=1)
    rental.mend()
    ssh(rentals, rental, "true")
    rental.run(*fetch)

    rental.cut(port=22)
    ssh(rentals, rental, "true", code=255)
    rental.run(*fetch)
    rental.mend(port=22)

    rental.pause()
    ssh(rentals, rental, "true", code=255)
    rental.resume()
    ssh(rentals, rental, "true")


def test_a_full_disk(rentals: Rentals) -> None:
    rental = rentals.rent(disk_mb=16)
    write = ("sh", "-c", f"echo data > {ROOT}/file && rm {ROOT}/file")
    rental.run(*write)
    rental.fill_disk()
    rental.run(*write, code=1)
    rental.free_disk()
    rental.run(*write)
    rental.run("touch", f"{ROOT}/kept")
    rental.reboot()
    rental.run("test", "-e", f"{ROOT}/kept")


def test_the_store_goes_down_and_comes_back_with_all_it_had(bridge_s3: S3Server) -> None:
    store = CloudStore(bridge_s3.url(), bridge_s3.env)
    store.put("key", b"value")
    bridge_s3.stop()
    with pytest.raises(StoreUnavailable):
        store.get("key")
    bridge_s3.start()
    assert store.get("key") == b"value"
