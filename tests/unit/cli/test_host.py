"""gpujob host check, over a real sshd."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from gpujob.cli.verbs import host
from gpujob.hosts.survey import Survey
from gpujob.transport.local import Local
from support.console import Shell
from support.sshd import Sshd, free_port

pytestmark = pytest.mark.real


@pytest.fixture
def shell(shell: Shell, sshd: Sshd) -> Shell:
    shell.environ.update(sshd.environ)
    return shell


def test_a_machine_that_will_do(shell: Shell, sshd: Sshd) -> None:
    ran = shell("host", "check", sshd.alias)
    assert (ran.code, ran.err) == (0, "")
    assert f"{sshd.there}/.gpujob" in ran.out
    assert "The GPU was not tried: there is no GPU." in ran.out
    assert ran.out.endswith("box: jobs can run there\n")
    assert list(sshd.there.iterdir()) == []


def test_the_same_as_json(shell: Shell, sshd: Sshd) -> None:
    found = shell("host", "check", sshd.alias, "--json").json
    assert found["host"] == sshd.alias
    assert found["survey"]["root"] == f"{sshd.there}/.gpujob"
    assert (found["refusals"], found["matmul"]) == ([], None)


def test_a_store_that_cannot_be_reached_from_there_is_refused(shell: Shell, sshd: Sshd) -> None:
    shell.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{free_port()}"
    shell.environ["AWS_SECRET_ACCESS_KEY"] = "very-secret"
    ran = shell("host", "check", sshd.alias, "--store", "s3://bucket/gpujob")
    assert ran.code == 21
    assert "refused: the store http://127.0.0.1:" in ran.out
    assert ran.out.endswith("box: no job can start there\n")
    found = shell("host", "check", sshd.alias, "--store", "s3://bucket/gpujob", "--json")
    assert (found.code, len(found.json["refusals"])) == (21, 1)
    assert "very-secret" not in ran.out + found.out


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 21), ("", 21)])
def test_an_unknown_key_is_asked_about_on_a_terminal(shell: Shell, sshd: Sshd, answer: str, code: int) -> None:
    sshd.forget()
    ran = shell("host", "check", sshd.alias)
    assert (ran.code, sshd.fingerprint() in ran.err) == (21, True)
    seen, ended = at_a_terminal(shell, answer, "host", "check", sshd.alias, "--json")
    assert sshd.fingerprint() in seen
    assert ended == code
    assert shell("host", "check", sshd.alias).code == code, "what was accepted is known from then on"


def at_a_terminal(shell: Shell, answer: str, *words: str) -> tuple[str, int]:
    """Run a verb whose person answers each question the same; give what was shown, and the exit code."""
    ours, theirs = os.openpty()
    environ = {**shell.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-m", "gpujob.cli.main", *words]
    with subprocess.Popen(argv, env=environ, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE) as process:
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        out = process.communicate(timeout=60)[0]
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    json.loads(out)
    return shown, process.returncode


def test_a_gpu_that_does_not_work_with_its_torch_is_refused() -> None:
    # A card, as the driver says, and a torch that was built without any.
    pythons = [{"path": sys.executable, "version": "3.11.2", "torch": "2.6.0"}]
    survey = Survey.model_validate({"gpus": [{"name": "RTX 4090"}], "pythons": pythons})
    trial, (refusal,) = host._trial(Local(dict(os.environ)), survey)
    assert trial is None
    assert "its GPU does not work with its torch 2.6.0" in refusal


def test_a_machine_that_does_not_answer(shell: Shell, sshd: Sshd) -> None:
    sshd.stop()
    ran = shell("host", "check", sshd.alias)
    assert (ran.code, ran.out) == (21, "")
    assert "error: cannot" in ran.err


@pytest.mark.parametrize("words", [("host",), ("host", "check"), ("host", "look", "box"), ("host", "check", "")])
def test_a_wrong_command_line(shell: Shell, words: tuple[str, ...]) -> None:
    assert shell(*words).code == 2
