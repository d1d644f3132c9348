"""The supervisor under SIGKILL: it dies after every single change of the journal, and the job never suffers."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from gpujob import bundle, processes
from gpujob.client.journal import Journal
from gpujob.client.secrets import JobSecrets
from gpujob.client.settings import Settings
from gpujob.client.submit import submit
from gpujob.core.job import State
from gpujob.runtime.environ import machine_environ
from gpujob.store.open import open_store
from support.agents import fake_app
from support.client import make_plan

DYING = """
import os, signal, sys

kill_at = int(sys.argv[1])
from gpujob.client.journal import Journal
from gpujob.client.supervisor import main
from gpujob.core import lifecycle

lifecycle._backoff = lambda job, policy: 0.0  # nobody waits here
original, done = Journal._write, 0


def write(self, job_id, entry):
    global done
    done += 1
    if done == kill_at and not before:
        original(self, job_id, entry)
    if done == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
    original(self, job_id, entry)


before = sys.argv[2] == "before"
Journal._write = write
main()
"""


@pytest.mark.real
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_around_every_change_the_job_ends_with_two_attempts_and_nothing_left(tmp_path: Path, when: str):
    environ = {**machine_environ(os.environ), "GPUJOB_HOME": str(tmp_path / "home")}
    environ.update(PYTHONPATH=os.environ.get("PYTHONPATH", ""), GPUJOB_POLL_SECONDS="0.02", GPUJOB_BEAT_SECONDS="0.02")
    settings = Settings.read(environ)
    journal, store = Journal(settings.home), open_store((tmp_path / "store").as_uri(), {})
    packed = bundle.pack({"app": fake_app(tmp_path / "app")})
    for kill_at in range(1, 40):
        job_id = f"test-{secrets.token_hex(6)}"
        plan = make_plan(job_id, job_id, (tmp_path / "store").as_uri(), run="crash done")
        submit(plan, packed, JobSecrets(machine_env=machine_environ(os.environ)), settings, store, wake=lambda _: None)
        try:
            argv = [sys.executable, "-c", DYING]
            died = subprocess.run([*argv, str(kill_at), when], env=environ, check=False, timeout=120).returncode != 0
            if died:
                subprocess.run([*argv, "0", when], env=environ, check=True, timeout=120)
            job = journal.read(job_id).job
            assert (job.state, job.attempt, job.failures) == (State.SUCCEEDED, 2, 1), (kill_at, job)
            assert not job.active
            assert processes.of_job(job_id, 99) == []
            assert not settings.home.rental(job_id).exists()
        finally:
            processes.kill_job(job_id, 99)
        if not died:
            assert kill_at > 6
            return
    raise AssertionError("the supervisor never got through")
