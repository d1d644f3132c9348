"""The supervisor as a real process, with real agents that train nothing, over a store in a folder."""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from gpujob import bundle, locks, processes
from gpujob.client import logs
from gpujob.client.cancel import cancel
from gpujob.client.journal import Journal
from gpujob.client.secrets import JobSecrets
from gpujob.client.settings import Settings
from gpujob.client.submit import submit
from gpujob.client.supervisor import Supervisor, ensure_running, wake
from gpujob.client.tools import open_tools
from gpujob.core.job import Job, State
from gpujob.core.reasons import Reason
from gpujob.runtime.environ import machine_environ
from gpujob.store.open import open_store
from support.agents import fake_app
from support.client import make_entry, make_plan
from support.desk import until


class Home:
    """One home with its jobs, and what is needed to wait for them and to end them for certain."""

    def __init__(self, folder: Path) -> None:
        environ = {**machine_environ(os.environ), "GPUJOB_HOME": str(folder / "home")}
        environ["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
        self.settings = Settings.read({**environ, "GPUJOB_POLL_SECONDS": "0.05", "GPUJOB_BEAT_SECONDS": "0.05"})
        self.folder, self.jobs = folder, list[str]()
        self.journal = Journal(self.settings.home)
        self.store_url = (folder / "store").as_uri()

    def submit(self, command: str, name: str | None = None, **spec: object) -> str:
        job_id = f"test-{secrets.token_hex(6)}"
        self.jobs.append(job_id)
        plan = make_plan(job_id, name or job_id, self.store_url, run=command, **spec)
        packed = bundle.pack({"app": fake_app(self.folder / "app")})
        known = JobSecrets(machine_env=machine_environ(os.environ))
        submit(plan, packed, known, self.settings, open_store(self.store_url, {}))
        return job_id

    def job(self, job_id: str) -> Job:
        return self.journal.read(job_id).job

    def until(self, job_id: str, *states: State) -> Job:
        until(lambda: self.job(job_id).state in states, f"{job_id} in {states}")
        return self.job(job_id)

    def over(self, job_id: str) -> Job:
        until(lambda: not self.job(job_id).active, f"the end of {job_id}")
        return self.job(job_id)

    def left(self, job_id: str) -> list[psutil.Process]:
        return processes.of_job(job_id, 99)

    def supervisor(self) -> int | None:
        lock = self.settings.home.supervisor_lock
        return int(lock.read_text() or 0) if locks.is_held(lock) else None

    def kill_supervisor(self) -> None:
        if pid := self.supervisor():
            os.kill(pid, signal.SIGKILL)
            until(lambda: self.supervisor() is None, "the supervisor's death")

    def close(self) -> None:
        self.kill_supervisor()
        for job_id in self.jobs:
            processes.kill_job(job_id, 99)


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path)
    yield home
    home.close()


def test_a_job_goes_through_crashes_and_deaths_to_its_end(home):
    job_id = home.submit("crash die done")
    job = home.over(job_id)
    assert (job.state, job.attempt, job.failures, job.preemptions) == (State.SUCCEEDED, 3, 1, 1)
    assert home.left(job_id) == []
    assert not home.settings.home.rental(job_id).exists()
    assert not home.settings.home.secrets(job_id).exists()
    store = open_store(home.store_url, {})
    log = b"".join(logs.follow(store, job_id, over=lambda: True, pause=pytest.fail))
    assert log == b"attempt 1: crash\nattempt 2: die\nattempt 3: done\n"
    kinds = [event.kind for event in logs.events(store, home.journal.read(job_id))]
    assert kinds.count("fake") == 3
    assert kinds.count("BACKOFF") == 2
    until(lambda: home.supervisor() is None, "the end of the supervisor that has nothing to do")


def test_a_supervisor_killed_at_any_time_is_replaced_without_harm(home):
    job_id = home.submit("hang")
    home.until(job_id, State.RUNNING)
    agent = {process.pid for process in home.left(job_id)}
    home.kill_supervisor()
    wake(home.settings)
    beat = home.journal.read(job_id).beat
    until(lambda: home.journal.read(job_id).beat != beat, "a new heartbeat")
    assert {process.pid for process in home.left(job_id)} == agent, "the agent did not notice"
    home.kill_supervisor()
    cancel(home.settings, job_id)
    assert home.over(job_id).state is State.CANCELLED
    assert home.left(job_id) == []


def test_cancel_of_a_job_that_listens_to_nobody(home):
    job_id = home.submit("deaf", limits={"grace": 0.1})
    home.until(job_id, State.RUNNING)
    # The patience is the grace and a minute: let it be over.
    cancel(home.settings, job_id)
    past = home.journal.read(job_id).job.model_copy(update={"due": time.time()})
    home.journal.update(job_id, lambda entry: entry.model_copy(update={"job": past}))
    assert home.over(job_id).state is State.CANCELLED
    assert home.left(job_id) == []


def test_a_deleted_rental_is_a_lost_machine(home):
    job_id = home.submit("hang done")
    home.until(job_id, State.RUNNING)
    home.settings.home.rental(job_id).rename(home.folder / "gone")
    job = home.over(job_id)
    assert (job.state, job.attempt, job.unreleased) == (State.SUCCEEDED, 2, ())
    assert any("is gone" in event.text for event in home.journal.read(job_id).history)
    assert home.left(job_id) == []


def test_two_jobs_at_once_and_a_broken_third(home):
    (home.settings.home.journal).mkdir(parents=True)
    home.settings.home.job("broken").write_bytes(b"{")
    jobs = [home.submit("done"), home.submit("crash done")]
    assert [home.over(job_id).state for job_id in jobs] == [State.SUCCEEDED, State.SUCCEEDED]
    log = home.settings.home.supervisor_log.read_text()
    assert "broken.json" in log
    assert log.count("Traceback") == 0


def test_one_supervisor_however_many_start_it(home):
    job_id = home.submit("hang")
    home.kill_supervisor()
    threads = [threading.Thread(target=ensure_running, args=(home.settings,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first = home.supervisor()
    assert first is not None
    assert Supervisor(home.settings).run() is False
    ensure_running(home.settings)
    assert home.supervisor() == first
    home.until(job_id, State.RUNNING)


def test_a_job_submitted_while_the_supervisor_ends_is_driven(home, monkeypatch):
    """The supervisor has seen that nothing is active; the job comes before it lets go of its lock."""
    supervisor = Supervisor(home.settings)
    fake_app(home.folder / "app")
    looks, submitting = [], []
    original = Supervisor._active

    def active(self):
        looks.append(original(self))
        if len(looks) == 2:  # the look that holds the gate
            thread = threading.Thread(target=lambda: submitting.append(home.submit("done")))
            thread.start()
            submitting.append(thread)
            until(lambda: home.jobs and home.job_is_active(), "the entry of the new job")
        return looks[-1]

    home.job_is_active = lambda: any(entry.job.active for entry in home.journal.all()[0])
    monkeypatch.setattr(Supervisor, "_active", active)
    assert supervisor.run() is True
    assert looks[1] == []
    submitting[0].join()
    assert home.over(home.jobs[0]).state is State.SUCCEEDED


def test_a_failing_driver_takes_no_other_with_it(home, monkeypatch):
    """One job's tools cannot be had; the other job is driven all the same, and the person sees the trouble."""
    monkeypatch.setattr("gpujob.client.submit.ensure_running.__code__", (lambda settings: None).__code__)
    bad, good = home.submit("done", name="bad"), home.submit("done", name="good")

    def tools(settings, plan, clock):
        if plan.name == "bad":
            raise RuntimeError("no tools")
        return open_tools(settings, plan, clock)

    supervisor = Supervisor(home.settings, open_tools=tools)
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    try:
        assert home.over(good).state is State.SUCCEEDED
        until(lambda: "no tools" in home.journal.read(bad).trouble, "the trouble in the entry")
        assert home.job(bad).state is State.ACQUIRING
    finally:
        supervisor.end()
        thread.join()


def test_a_submit_that_was_killed_is_cleared_up_by_the_next_look(home):
    plan = make_plan("test-dead", store=home.store_url)
    home.journal.create(make_entry(plan))
    home.settings.home.submitting("test-dead").touch()
    wake(home.settings)
    job = home.over("test-dead")
    assert (job.state, job.reason) == (State.CANCELLED, Reason.CANCELLED)


def test_the_supervisor_holds_no_secret(home):
    environ = {**home.settings.environ, "HF_TOKEN": "hf_secret", "AWS_SECRET_ACCESS_KEY": "aws_secret"}
    home.settings = Settings.read({**environ, **home.settings.exported()})
    home.submit("hang")
    pid = home.supervisor()
    assert pid is not None
    seen = psutil.Process(pid)
    assert "secret" not in str(seen.environ()) + str(seen.cmdline())
