"""What a look at a machine means for a job: pure, a table of machines and of what is said about them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpujob.hosts.endpoint import endpoint
from gpujob.hosts.needs import Needs, refusals, warnings
from gpujob.hosts.probe import ahead
from gpujob.hosts.survey import Survey, read

GB = 10**9
GPU = {"name": "NVIDIA RTX 4090", "memory": 24 * GB, "driver": "550.54"}
PYTHON = {"path": "/usr/bin/python3", "version": "3.11.2", "pip": True, "torch": "2.6.0"}
DOCKER = {"name": "docker", "path": "/usr/bin/docker", "version": "27.0", "answers": True, "nvidia": True}
GOOD: dict[str, Any] = {
    "system": "Linux",
    "arch": "x86_64",
    "libc": "glibc 2.36",
    "ram": 64 * GB,
    "root": "/home/me/.gpujob",
    "disk_free": 100 * GB,
    "inodes_free": 10**6,
    "clock": 1000.0,
    "ahead": 0.0,
    "pythons": [PYTHON],
    "gpus": [GPU],
    "cuda": "12.4",
    "engines": [DOCKER],
    "store": {"url": "https://s3.example.com", "answer": 0.05, "ahead": 0.2},
}
ALL = Needs(contained=True, disk_bytes=50 * GB, store="https://s3.example.com", train=True, cuda="12.4")


def machine(**changes: Any) -> Survey:
    return Survey.model_validate({**GOOD, **changes})


def engine(**changes: Any) -> list[dict[str, Any]]:
    return [{**DOCKER, **changes}]


@pytest.mark.parametrize("needs", [Needs(), ALL, Needs(train=True)])
def test_nothing_is_said_about_a_good_machine(needs: Needs) -> None:
    assert refusals(machine(), needs) == warnings(machine(), needs) == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"system": "Darwin"}, "it runs Darwin, and jobs run on Linux"),
        ({"arch": "ppc64le"}, "its processor is a ppc64le"),
        ({"pythons": []}, "Python 3.10 or newer is needed, and found was none"),
        ({"pythons": [{**PYTHON, "version": "3.8.10"}]}, "found was 3.8.10: install one there"),
        ({"root_error": "Read-only file system"}, "/home/me/.gpujob cannot be written (Read-only file system)"),
        ({"disk_free": 3_200_000_000}, "has 3.2 GB free, and the job needs 50.0 GB: free some"),
        ({"inodes_free": 12}, "has room for 12 more files, and 10,000 are needed"),
        ({"ram": 400_000_000}, "it has 400.0 MB of memory, and at least 1.0 GB are needed"),
        ({"memory_limit": 500_000_000}, "it has 500.0 MB of memory"),
        ({"ahead": 90.0}, "its clock is 1 min 30 s ahead of this computer's"),
        ({"ahead": -7200.0}, "(it is 0 s ahead of the store's)"),
        ({"engines": []}, "no docker or podman is there: install one, or say `image: none`"),
        ({"engines": [], "container": True}, "inside a rented container there can be none"),
        (
            {"engines": engine(answers=False, said="permission denied")},
            "/usr/bin/docker does not answer this user (permission denied): start it there",
        ),
        ({"engines": engine(answers=False, by_sudo=True)}, "sudo usermod -aG docker $USER"),
        ({"engines": engine(nvidia=False)}, "install the NVIDIA Container Toolkit"),
        ({"gpus": []}, "made for CUDA 12.4, and the machine shows no GPU: choose"),
        ({"gpus": [], "gpu_error": "Driver/library version mismatch"}, "no GPU (Driver/library version mismatch)"),
        ({"cuda": "11.8"}, "made for CUDA 12.4, and driver 550.54 goes up to 11.8: choose an older image"),
        (
            {"store": {"url": "https://s3.example.com", "error": "timed out"}},
            "cannot be reached from there (timed out)",
        ),
    ],
)
def test_a_refusal_is_one_plain_sentence(changes: dict[str, Any], said: str) -> None:
    (refusal,) = refusals(machine(**changes), ALL)
    assert said in refusal
    assert "\n" not in refusal


@pytest.mark.parametrize(
    ("changes", "needs", "said"),
    [
        ({"ahead": -7.0}, Needs(), "its clock is 7 s behind this computer's (it is 0 s ahead of the store's)"),
        ({"ram": 2 * GB}, Needs(), "it has only 2.0 GB of memory"),
        ({"gpu_error": "no devices were found", "gpus": []}, Needs(), "nvidia-smi is there and does not work: no dev"),
        ({"gpus": []}, Needs(train=True), "it has no GPU: training runs on its processors"),
        ({"cuda": "12.2"}, ALL, "made for CUDA 12.4, and the driver goes up to 12.2"),
        ({"engines": engine(disk_free=GB)}, ALL, "docker has 1.0 GB free for images"),
        ({"pythons": [{**PYTHON, "torch": ""}]}, Needs(train=True), "no torch is there: it is installed"),
        ({"pythons": [{**PYTHON, "torch": "", "pip": False}]}, Needs(train=True), "nor pip or uv to install it"),
        ({"store": {**GOOD["store"], "distrust": "self-signed"}}, Needs(), "does not trust the store's certificate"),
        ({"store": {**GOOD["store"], "answer": 4.0}}, Needs(), "takes 4.0 s to answer"),
        ({"jobs": [{"job_id": "a-1", "agents": 1}, {"job_id": "b-2"}]}, Needs(), "other jobs run there: a-1"),
    ],
)
def test_a_warning_keeps_nobody_out(changes: dict[str, Any], needs: Needs, said: str) -> None:
    (warning,) = warnings(machine(**changes), needs)
    assert said in warning
    assert refusals(machine(**changes), needs) == ()


def test_only_what_a_job_needs_is_held_against_a_machine() -> None:
    bare = machine(engines=[], gpus=[], cuda="", disk_free=20 * GB, pythons=[{**PYTHON, "torch": ""}])
    assert refusals(bare, Needs(disk_bytes=GB)) == ()
    assert refusals(machine(libc="musl"), Needs()) == refusals(machine(libc="musl"), ALL) == ()
    (musl,) = refusals(machine(libc="musl"), Needs(train=True))
    assert "torch needs glibc" in musl


def test_what_is_unknown_is_not_held_against_a_machine() -> None:
    (said,) = refusals(Survey(), Needs(disk_bytes=GB))
    assert said.startswith("Python 3.10")
    assert warnings(Survey(), Needs()) == ()


def test_the_python_with_torch_is_used_and_one_that_is_too_old_is_not() -> None:
    def pythons(*each: tuple[str, str]) -> Survey:
        return machine(pythons=[{**PYTHON, "version": version, "torch": torch} for version, torch in each])

    found = pythons(("3.9.1", "2.6"), ("3.12.0", ""), ("3.10.0", "2.5")).python
    assert found is not None
    assert found.version == "3.10.0"
    found = pythons(("3.9.1", "2.6"), ("3.12.0", ""), ("3.11.0", "")).python
    assert found is not None
    assert found.version == "3.12.0"
    assert pythons(("3.9.1", "2.6"), ("three", "1")).python is None


@pytest.mark.parametrize(
    ("clock", "seconds", "sent", "received", "seen"),
    [
        (1000.1, 1.0, 1000.0, 1001.2, 0.0),  # it fits into the way there and back
        (1030.0, 0.0, 1000.0, 1060.0, 0.0),  # as it does over a very slow line
        (1100.0, 1.0, 1000.0, 1001.5, 99.5),
        (900.0, 1.0, 1000.0, 1001.5, -100.0),
        (None, 0.0, 0.0, 0.0, None),
    ],
)
def test_a_slow_line_accuses_no_clock(
    clock: float | None, seconds: float, sent: float, received: float, seen: float | None
) -> None:
    assert ahead(Survey(clock=clock, seconds=seconds), sent, received) == seen


def answer(**values: Any) -> bytes:
    return b"mark " + json.dumps(values).encode() + b"\n"


def test_a_survey_is_found_in_noise_and_tamed() -> None:
    noise = b"Welcome!\nmark \x00\xff\n" * 1000
    survey = read(noise + answer(**{**GOOD, "hostname": "a\x1b[31m\nb\u202e" + "x" * 10_000, "new": [1]}), "mark ")
    assert survey.hostname.startswith("a[31m bx")
    assert len(survey.hostname) <= 300
    assert survey.pythons == machine().pythons


@pytest.mark.parametrize(
    "root", ["/home/me\nrm -rf /", "relative", "/a/../../etc", "/" + "x" * 2000, "/\x1b[2J", 7, ""]
)
def test_a_home_that_is_no_plain_path_is_refused(root: object) -> None:
    with pytest.raises(ValueError, match="root"):
        read(answer(**{**GOOD, "root": root}), "mark ")


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"no survey\n" * 100_000,
        b"mark \n",
        b"mark []\n",
        b"mark " + b"[" * 100_000,
        b"mark " + b'{"a":' * 50_000,
        answer(ram="lots"),
        answer(ram=-1),
        answer(ram=2**70),
        b'mark {"clock": NaN}\n',
        b'mark {"seconds": 1e999}\n',
        b'mark {"ram": ' + b"9" * 10_000 + b"}\n",
        answer(pythons=[{"path": "/bin/sh; reboot\n", "version": "3.11"}]),
    ],
)
def test_what_is_no_survey_is_a_value_error(said: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - what exactly is wrong is the library's to say
        read(said, "mark ")


def test_lists_and_answers_without_end_are_cut() -> None:
    many = answer(**{**GOOD, "jobs": [{"job_id": str(number)} for number in range(5000)]})
    assert len(read(b"x" * 50_000_000 + b"\n" + many, "mark ").jobs) == 100


@pytest.mark.parametrize(
    ("url", "env", "address"),
    [
        ("s3://b/p", {}, "https://s3.us-east-1.amazonaws.com"),
        ("s3://b", {"AWS_REGION": "eu-west-1"}, "https://s3.eu-west-1.amazonaws.com"),
        ("s3://b", {"AWS_ENDPOINT_URL": "http://172.17.0.1:9000/"}, "http://172.17.0.1:9000"),
        ("s3://b", {"AWS_ENDPOINT_URL": "https://user:secret@minio.example.com/x?y"}, "https://minio.example.com"),
        ("gs://b", {}, "https://storage.googleapis.com"),
        ("az://c", {"AZURE_STORAGE_ACCOUNT_NAME": "me"}, "https://me.blob.core.windows.net"),
        ("az://c", {}, ""),
        ("/mnt/nas", {}, ""),
        ("webdav://host/x", {}, ""),
    ],
)
def test_a_store_has_an_address(url: str, env: dict[str, str], address: str) -> None:
    assert endpoint(url, env) == address
