"""Agents as plain processes: real ones, started, found and ended."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import threading
from pathlib import Path

import psutil
import pytest

from gpujob import processes
from gpujob.core.errors import Damaged, HostError, NotFound
from gpujob.core.layout import HostPaths, blob
from gpujob.runtime import bare
from gpujob.runtime.bare import Bare
from gpujob.store.memory import MemoryStore
from support.agents import launch_of, ship_small_agent

ENVIRON = {
    "PATH": os.environ["PATH"],
    "HF_HOME": "/cache",
    "HF_TOKEN": "hf_leaked",
    "AWS_SECRET_ACCESS_KEY": "aws_leaked",
    "PYTHONPATH": "/elsewhere",
    "GPUJOB_HOME": "/home",
}


@pytest.fixture
def job_id():
    """A job of this test's own: its cookie finds no process of any other."""
    job_id = f"test-{secrets.token_hex(6)}"
    yield job_id
    processes.kill_job(job_id, 99)


class Rented:
    """One machine with one job whose agent does what the test says."""

    def __init__(self, folder: Path, job_id: str, does: str) -> None:
        self.store, self.job_id, self.root = MemoryStore(), job_id, folder / "rental of mine"
        self.root.mkdir()
        ship_small_agent(self.store, folder / "app", job_id, does)
        self.runtime = Bare(self.store, ENVIRON)

    def start(self, attempt: int = 1, **changes: object) -> None:
        self.runtime.start(launch_of(self.job_id, self.root, attempt, **changes))

    def alive(self, attempt: int = 1) -> bool:
        return self.runtime.alive(str(self.root), attempt)

    def stop(self, attempt: int = 1, grace: float = 30.0) -> None:
        self.runtime.stop(self.job_id, str(self.root), attempt, grace)

    def told(self, attempt: int = 1):
        return json.loads((HostPaths(self.root).attempt(attempt).root / "told.json").read_text())

    def pid(self, attempt: int = 1) -> int:
        return int(json.loads(HostPaths(self.root).attempt(attempt).pid.read_text())["pid"])

    def left(self) -> list[int]:
        return sorted(process.pid for process in processes.of_job(self.job_id, 99))


def test_an_agents_last_line_is_found_and_none_is_fine(tmp_path):
    agent, paths = Bare(MemoryStore(), {}), HostPaths(tmp_path).attempt(1)
    assert agent.last_words(str(tmp_path), 1) == ""
    paths.root.mkdir(parents=True)
    paths.agent_log.write_text("first\nthe bucket is not there\n")
    assert agent.last_words(str(tmp_path), 1) == "the bucket is not there"


def test_an_agent_starts_lives_and_ends_when_told(tmp_path, job_id):
    rented = Rented(tmp_path, job_id, "until_told()")
    assert not rented.alive()
    rented.start()
    assert rented.alive()
    assert rented.left() == [rented.pid()]
    rented.stop()
    assert not rented.alive()
    assert rented.left() == []


def test_what_the_agent_sees(tmp_path, job_id):
    rented = Rented(
        tmp_path, job_id, "tell(environ=dict(os.environ), argv=sys.argv, launch=launch, cwd=os.getcwd()); note()"
    )
    rented.start(secrets={"TOKEN": "s3cret"}, store_env={"AWS_X": "cred"})
    told = rented.told()
    assert told["launch"]["secrets"] == {"TOKEN": "s3cret"}
    assert told["launch"]["store_env"] == {"AWS_X": "cred"}
    environ = {name: value for name, value in told["environ"].items() if name != "LC_CTYPE"}
    assert environ == {
        "PATH": os.environ["PATH"],
        "HF_HOME": "/cache",
        "PYTHONPATH": str(HostPaths(rented.root).part("app")),
        "PYTHONUNBUFFERED": "1",
        "GPUJOB_ID": job_id,
        "GPUJOB_ATTEMPT": "1",
    }
    for secret in ("s3cret", "cred", "leaked"):
        assert secret not in json.dumps([told["environ"], told["argv"]])
        for path in rented.root.rglob("*"):
            assert not path.is_file() or path.name == "told.json" or secret.encode() not in path.read_bytes()


def test_an_agent_is_detached_from_its_client(tmp_path, job_id):
    rented = Rented(tmp_path, job_id, "until_told()")
    rented.start()
    assert os.getsid(rented.pid()) == rented.pid() != os.getsid(0)


def test_starting_twice_is_once(tmp_path, job_id):
    rented = Rented(tmp_path, job_id, "until_told()")
    threads = [threading.Thread(target=rented.start)]
    rented.start()
    threads[0].start()
    threads[0].join()
    first = rented.pid()
    assert rented.left() == [first]
    rented.stop()
    rented.start()
    assert not rented.alive(), "an attempt that has ended is not started again"
    assert rented.pid() == first


def test_a_start_cut_short_before_the_lock_is_made_good(tmp_path, job_id):
    rented = Rented(tmp_path, job_id, "until_told()")
    # What a killed client leaves: an agent that runs and has not taken its lock yet.
    environ = {**os.environ, "GPUJOB_ID": job_id, "GPUJOB_ATTEMPT": "1"}
    early = subprocess.Popen(["sleep", "1000"], env=environ)
    rented.start()
    early.wait(30)
    assert rented.left() == [rented.pid()]


def test_nothing_of_an_earlier_attempt_is_left_when_the_next_starts(tmp_path, job_id):
    does = """
    if launch["attempt"] == 1:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        wiped = child("sh", "-c", "env -i sleep 1000 & wait", **quiet)
        deaf = child("sh", "-c", "trap '' TERM HUP; sleep 1000 & wait", **quiet)
        tell(pids=[child("sleep", "1000", **quiet), deaf, wiped])
    until_told()
    """
    rented = Rented(tmp_path, job_id, does)
    rented.start(1)
    assert len(rented.left()) >= 4
    agent = psutil.Process(rented.pid(1))
    agent.kill()
    processes.wait_for([agent], 30)
    assert not rented.alive(1), "children hold no lock of their agent"
    rented.start(2)
    assert rented.left() == [rented.pid(2)]
    assert not any(psutil.pid_exists(pid) and _lives(pid) for pid in rented.told(1)["pids"])


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_an_agent_that_does_not_listen_is_killed_with_all_it_started(tmp_path, job_id):
    does = """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child("sleep", "1000")
    note()
    while True:
        time.sleep(1000)
    """
    rented = Rented(tmp_path, job_id, does)
    rented.start()
    assert len(rented.left()) == 2
    rented.stop(grace=0.1)
    assert rented.left() == []


def test_stop_leaves_later_attempts_and_other_jobs_alone(tmp_path, job_id):
    rented = Rented(tmp_path, job_id, "until_told()")
    rented.start(2)
    other = {**os.environ, "GPUJOB_ID": f"{job_id}-other", "GPUJOB_ATTEMPT": "1"}
    with subprocess.Popen(["sleep", "1000"], env=other) as stranger:
        rented.stop(1)
        assert rented.alive(2)
        assert stranger.poll() is None
        stranger.kill()


def test_what_cannot_be_killed_is_named(tmp_path, job_id, monkeypatch):
    rented = Rented(tmp_path, job_id, "until_told()")
    rented.start()
    pid = rented.pid()
    with monkeypatch.context() as patch:
        patch.setattr(processes, "_KILL_SECONDS", 0.0)
        patch.setattr(psutil.Process, "kill", lambda self: None)
        with pytest.raises(HostError, match=str(pid)):
            rented.stop(grace=0.0)


def test_an_agent_that_cannot_start_says_why(tmp_path, job_id):
    rented = Rented(tmp_path, job_id, "raise SystemExit('no module named pydantic')")
    with pytest.raises(HostError, match="no module named pydantic"):
        rented.start()


def test_an_agent_that_does_nothing_is_not_waited_for_for_ever(tmp_path, job_id, monkeypatch):
    monkeypatch.setattr(bare, "_START_SECONDS", 0.05)
    rented = Rented(tmp_path, job_id, "time.sleep(1000)")
    with pytest.raises(HostError, match="did nothing"):
        rented.start()
    assert processes.of_job(job_id, 99) == []


def test_a_python_that_is_not_there_is_a_host_error(tmp_path, job_id):
    rented = Rented(tmp_path, job_id, "")
    with pytest.raises(HostError, match="start the agent"):
        Bare(rented.store, ENVIRON, python=str(tmp_path / "none")).start(launch_of(job_id, rented.root))


def test_a_damaged_or_missing_bundle_is_told_apart_from_a_broken_machine(tmp_path, job_id):
    rented = Rented(tmp_path, job_id, "until_told()")
    for info in list(rented.store.list(blob("")[:6])):
        rented.store.put(info.key, b"x" * info.size)
    with pytest.raises(Damaged):
        rented.start()
    with pytest.raises(NotFound):
        rented.runtime.start(launch_of(f"{job_id}-none", rented.root, 2))


def test_no_descriptor_of_the_client_reaches_the_agent(tmp_path, job_id):
    rented = Rented(tmp_path, job_id, "tell(open=sorted(os.listdir('/proc/self/fd'))); note()")
    with (tmp_path / "mine").open("w") as mine:
        os.set_inheritable(mine.fileno(), True)
        rented.start()
    assert len(rented.told()["open"]) <= 5  # in, out, error, the lock, and the listing itself
