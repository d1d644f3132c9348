"""Agents on another machine, over a real sshd: everything they need is brought there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from gpujob import bundle, processes
from gpujob.checkpoints import head as heads
from gpujob.client.watch import read_report
from gpujob.core.errors import HostError, HostUnreachable
from gpujob.core.layout import HomePaths, JobKeys, MachinePaths
from gpujob.core.plan import make_plan
from gpujob.core.reasons import Reason
from gpujob.core.records import ExitReport, Launch
from gpujob.core.spec import Host, JobSpec
from gpujob.runtime.protocol import Cargo
from gpujob.runtime.remote import Remote
from gpujob.store.local import LocalStore
from gpujob.transport.open import open_transport
from support.desk import until
from support.sshd import Sshd

pytestmark = pytest.mark.real

SECRET = "open-sesame-7"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> HomePaths:
    """One client's home for all tests here: the kit is fetched once."""
    return HomePaths(tmp_path_factory.mktemp("client"))


class Job:
    """A job whose files lie on this computer and nowhere else."""

    def __init__(self, job_id: str, folder: Path, run: str, remote: Remote, machine: MachinePaths) -> None:
        self.id, self.remote, self.host = job_id, remote, machine.job(job_id)
        self.store = LocalStore(folder / "store")
        (folder / "code").mkdir()
        (folder / "code" / "words.txt").write_text("hello from the bundle")
        spec = JobSpec.model_validate({"name": "far", "run": run, "secrets": ["TOKEN"]})
        plan = make_plan(spec, job_id=job_id, folder=folder / "code", default_store=self.store.url, now=0)
        heads.create(self.store, job_id)
        self.store.put(JobKeys(job_id).plan, plan.encode())
        self.packed = bundle.pack({"code": folder / "code", "app": bundle.app_part()})
        self.moved = 0

    def ship(self) -> None:
        app = bundle.app_part().parent
        cargo = Cargo(self.id, str(self.host.root), app, None, self.packed.bundle, self.packed.sources)
        self.remote.ship(cargo, self._tell)

    def start(self, attempt: int = 1) -> None:
        values: dict[str, Any] = {"store": self.store.url, "root": str(self.host.root), "beat_seconds": 0.2}
        self.remote.start(Launch(job_id=self.id, attempt=attempt, secrets={"TOKEN": SECRET}, **values))

    def alive(self, attempt: int = 1) -> bool:
        return self.remote.alive(str(self.host.root), attempt)

    def stop(self, attempt: int = 1, grace: float = 0.0) -> None:
        self.remote.stop(self.id, str(self.host.root), attempt, grace)

    def report(self, attempt: int = 1) -> ExitReport:
        until(lambda: not self.alive(attempt), "the agent's end", 60)
        report = read_report(self.store, self.id, attempt)
        assert report is not None, self.host.attempt(attempt).agent_log.read_text()
        return report

    def _tell(self, count: int) -> None:
        self.moved += count


@pytest.fixture
def far(sshd: Sshd, home: HomePaths, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give a way to make a job on the other machine; nothing of it is left afterwards."""
    transport = open_transport(Host(ssh=sshd.alias), home, sshd.environ)
    machine, made = MachinePaths(sshd.there / ".gpujob"), []

    def make(run: str) -> Job:
        made.append(
            Job(f"far-{abs(hash(request.node.name)) % 10**6:06d}", tmp_path, run, Remote(transport, home), machine)
        )
        return made[-1]

    yield make
    for job in made:
        processes.kill_job(job.id, 99)
    transport.close()


def test_a_job_runs_there_out_of_what_was_sent(far: Any) -> None:
    job: Job = far(
        'test "$TOKEN" = open-sesame-7 && cat words.txt > "$GPUJOB_OUTPUT_DIR/said" && env > "$GPUJOB_OUTPUT_DIR/env"'
    )
    job.ship()
    assert job.moved == sum(
        {each.blake3: each.size for part in job.packed.bundle.parts.values() for each in part}.values()
    )
    assert not list(job.store.list(JobKeys(job.id).bundle)), "the store has nothing yet"
    job.start()
    assert job.report().reason is Reason.DONE
    assert bundle.read(job.store, job.id) == job.packed.bundle, "any other machine can go on from the store"
    output = job.host.attempt(1).output
    assert (output / "said").read_text() == "hello from the bundle"
    assert "/kits/" not in (output / "env").read_text(), "the agent's own libraries are the agent's alone"
    for path in job.host.machine.root.rglob("*"):
        assert not path.is_file() or path == output / "env" or SECRET.encode() not in path.read_bytes(), path


def test_a_second_job_sends_nothing_twice(far: Any) -> None:
    job: Job = far("true")
    job.ship()
    before = {path: path.stat().st_mtime_ns for path in job.host.machine.root.rglob("*") if path.is_file()}
    job.ship()
    after = {path: path.stat().st_mtime_ns for path in job.host.machine.root.rglob("*") if path.is_file()}
    changed = {path.name for path in after if after[path] != before.get(path)}
    assert changed == {"onhost", "bundle.json"}


def test_it_is_started_once_outlives_the_connection_and_is_stopped_for_certain(far: Any, sshd: Sshd) -> None:
    job: Job = far("exec sleep 600")
    job.ship()
    job.start()
    job.start()
    assert len(agents(job)) == 1
    sshd.drop()
    assert job.alive()
    assert not job.alive(2)
    job.stop()
    assert not job.alive()
    assert processes.of_job(job.id, 1) == []
    job.stop()


def test_a_stop_with_grace_lets_it_report(far: Any) -> None:
    job: Job = far("exec sleep 600")
    job.ship()
    job.start()
    until(lambda: any("sleep" in process.name() for process in processes.of_job(job.id, 1)), "the program", 60)
    job.stop(grace=30)
    assert job.report().reason is Reason.PREEMPTED
    assert job.remote.last_words(str(job.host.root), 2) == ""


def test_secrets_are_in_no_argument(far: Any) -> None:
    job: Job = far("exec sleep 600")
    job.ship()
    job.start()
    for process in psutil.process_iter():
        with pytest.MonkeyPatch.context():
            try:
                assert SECRET not in " ".join(process.cmdline())
            except psutil.Error:
                continue
    job.stop()


def test_an_agent_that_cannot_start_says_why(far: Any) -> None:
    job: Job = far("true")
    with pytest.raises(HostError):
        job.start()
    job.ship()
    job.host.onhost.write_text("#!/bin/sh\nprintf 'no\\033[31m such thing\\n' >&2; exit 1\n")
    with pytest.raises(HostError) as caught:
        job.start()
    assert "no[31m such thing" in str(caught.value)


def test_a_machine_that_is_away_is_unreachable(far: Any, sshd: Sshd) -> None:
    job: Job = far("true")
    job.ship()
    sshd.stop()
    with pytest.raises(HostUnreachable):
        job.alive()
    with pytest.raises(HostUnreachable):
        job.start()


def agents(job: Job) -> list[psutil.Process]:
    return [process for process in processes.of_job(job.id, 99) if "gpujob.agent" in process.cmdline()]
