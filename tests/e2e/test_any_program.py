"""The jobs people copy, run as they are, in a folder and in a bucket: lost in the middle, the same bytes at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from support.checkpoints import tree
from support.desk import Desk, until
from support.s3 import S3Server

pytestmark = pytest.mark.real

JOBS = Path(__file__).parents[2] / "jobs"


@contextmanager
def desk(folder: Path, **options: str) -> Iterator[Desk]:
    made = Desk(folder, **options)
    try:
        yield made
    finally:
        made.close()


def spec_of(job: str, folder: Path, **changes: object) -> Path:
    """Write a spec that runs one of our jobs where it lies."""
    spec = yaml.safe_load((JOBS / job / "job.yaml").read_text())
    folder.mkdir()
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump({**spec, "workdir": str(JOBS / job), **changes}))
    return path


def run(desk: Desk, spec: Path, out: Path, *, lose: bool) -> dict[str, bytes]:
    """Run a job, with its rental lost once after a durable checkpoint or not at all; give its result."""
    job_id = desk.submit(spec)
    if lose:
        until(lambda: desk.head(job_id).newest, "a durable checkpoint")
        desk.lose_rental(job_id)
    ended = desk.wait(job_id)
    assert ended["state"] == "SUCCEEDED"
    assert ended["attempt"] == 1 + lose
    desk.gpujob("pull", job_id, str(out))
    assert not desk.processes(job_id)
    return tree(out)


def test_plain_torch_in_a_bucket(s3: S3Server, tmp_path: Path) -> None:
    url, changes = s3.url(), {"checkpoint": {"interval": "0.2s"}, "env": {"EPOCHS": "200"}}
    with desk(tmp_path / "a") as calm:
        spec = spec_of("plain_torch", tmp_path / "one", **changes)
        expected = run(calm, spec, tmp_path / "calm", lose=False)
    with desk(tmp_path / "b", url=url, **s3.env) as storm:
        spec = spec_of("plain_torch", tmp_path / "two", **changes, store=url)
        assert run(storm, spec, tmp_path / "storm", lose=True) == expected


def test_hello_counts_on_where_it_was_lost(tmp_path: Path) -> None:
    with desk(tmp_path / "a") as calm, desk(tmp_path / "b") as storm:
        env = {"COUNT": "12", "STEP_SECONDS": "0.1"}
        spec = spec_of("hello", tmp_path / "one", env=env, checkpoint={"interval": "0.3s"})
        expected = run(calm, spec, tmp_path / "calm", lose=False)
        assert run(storm, spec, tmp_path / "storm", lose=True) == expected


def test_a_cancelled_job_leaves_no_process_and_keeps_its_checkpoint(tmp_path: Path) -> None:
    with desk(tmp_path) as one:
        spec = spec_of("hello", tmp_path / "job", env={"COUNT": "10000", "STEP_SECONDS": "0.05"})
        job_id = one.submit(spec)
        until(lambda: (beat := one.beat(job_id)) and beat.step > 2, "some steps")
        one.gpujob("cancel", job_id)
        ended = one.wait(job_id, code=13)
        assert (ended["state"], ended["reason"]) == ("CANCELLED", "CANCELLED")
        assert ended["durable_step"] > 2, "told to stop, the program saved once more"
        assert not one.processes(job_id)
        until(lambda: not one.supervisors(), "the supervisor to end")


def test_a_time_limit_holds_over_all_attempts(tmp_path: Path) -> None:
    with desk(tmp_path) as one:
        limits = {"duration": "6s", "grace": "1s"}
        spec = spec_of("hello", tmp_path / "job", env={"COUNT": "10000", "STEP_SECONDS": "0.05"}, limits=limits)
        job_id = one.submit(spec)
        until(lambda: (beat := one.beat(job_id)) and beat.elapsed > 2, "two seconds of the first attempt")
        one.lose_rental(job_id)
        ended = one.wait(job_id, code=14)
        assert (ended["state"], ended["reason"], ended["attempt"]) == ("FAILED", "LIMIT_TIME", 2)
        assert ended["spent"]["seconds"] < 7.5
