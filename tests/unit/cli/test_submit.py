"""gpujob submit up to the point where the supervisor takes over; the rest is for the end-to-end tests."""

from __future__ import annotations

import functools
import itertools
import json
import re
from pathlib import Path

import pytest

from gpujob.client.submit import submit
from gpujob.core.job import State
from gpujob.core.layout import JobKeys
from gpujob.core.plan import Plan
from gpujob.core.reasons import Reason
from support.console import Shell

SPEC = "name: support-bot\nrun: python train.py\nlimits: {duration: 1h}\n"


@pytest.fixture
def desk(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A project folder with a job.yaml, code, a big file and a secret that stays."""
    monkeypatch.setattr("gpujob.client.submit.submit", functools.partial(submit, wake=lambda settings: None))
    project = tmp_path / "project"
    project.mkdir()
    (project / "job.yaml").write_text(SPEC)
    (project / "train.py").write_text("print('hello')\n")
    (project / "weights.bin").write_bytes(b"\0" * 2_000_000)
    (project / ".env").write_text("HF_TOKEN=hf_very_secret_value\n")
    monkeypatch.chdir(project)
    return shell


def test_dry_run_shows_the_plan_and_does_nothing(desk: Shell) -> None:
    ran = desk("submit", "--dry-run")
    assert ran.code == 0
    for part in ("Runs:    python train.py", "2.0 MB  code/weights.bin", "Stays here: .env", "nothing was started"):
        assert part in ran.out
    assert not desk.home.root.exists()


def test_dry_run_json(desk: Shell) -> None:
    found = desk("submit", "job.yaml", "--dry-run", "--json", "--name", "other").json
    assert Plan.model_validate(found["plan"]).name == "other"
    assert found["travels"]["parts"]["code"] == {"files": 3, "bytes": 2_000_000 + len(SPEC) + 15}
    assert found["travels"]["left_out"][0]["path"] == ".env"


def test_submit_ships_and_returns_when_piped(desk: Shell) -> None:
    ran = desk("submit")
    (job_id,) = re.findall(r"^Submitted (support-bot-[a-z2-7]{6})\.$", ran.out, re.MULTILINE)
    assert f"gpujob logs {job_id} -f" in ran.out
    assert "Stays here: .env" in ran.err
    assert Plan.decode(desk.store.get(JobKeys(job_id).plan)).job_id == job_id
    assert desk.journal.read(job_id).job.state is State.ACQUIRING


def test_submit_json_gives_the_id(desk: Shell) -> None:
    ran = desk("submit", "--detach", "--json")
    assert (ran.json["name"], ran.err) == ("support-bot", "")
    assert desk.journal.read(ran.json["id"])


def test_an_active_job_of_that_name_is_refused_with_its_id(desk: Shell) -> None:
    job_id = desk("submit", "--json").json["id"]
    ran = desk("submit", "--fresh")
    assert (ran.code, job_id in ran.err) == (2, True)
    assert desk("submit", "--name", "another").code == 0


def test_an_ended_job_of_that_name_is_named_and_stays(desk: Shell) -> None:
    old = desk("submit", "--json").json["id"]
    desk.finish(old, State.SUCCEEDED, Reason.DONE)
    before = desk.journal.read(old)
    ran = desk("submit")
    assert f"{old} (SUCCEEDED) has the same name and spec; it stays as it is, this is a new job" in ran.err
    new = desk.journal.find("support-bot").job.id
    assert new != old
    assert desk.journal.read(old) == before
    desk.finish(new, State.FAILED, Reason.OOM)
    assert "it stays as it is" not in desk("submit", "--fresh").err


def test_secrets_come_from_the_environment_or_a_file_and_appear_nowhere(desk: Shell) -> None:
    Path("job.yaml").write_text(f"{SPEC}secrets: [HF_TOKEN]\n")
    ran = desk("submit")
    assert (ran.code, "HF_TOKEN" in ran.err, "--env-file" in ran.err) == (2, True, True)
    assert not desk.home.root.exists()
    ran = desk("submit", "--env-file", ".env")
    assert ran.code == 0
    job_id = desk.journal.find("support-bot").job.id
    values = json.loads(desk.home.secrets(job_id).read_bytes())["values"]
    assert values == {"HF_TOKEN": "hf_very_secret_value"}
    everywhere = [path for path in desk.home.root.rglob("*") if path.is_file() and path != desk.home.secrets(job_id)]
    assert not [path for path in everywhere if b"hf_very_secret" in path.read_bytes()]
    assert "hf_very_secret" not in ran.out + ran.err


def test_ctrl_c_while_sending_leaves_nothing_running(desk: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpujob.client.submit.bundle.ship", interrupted)
    assert desk("submit").code == 130
    assert desk.journal.find("support-bot").job.terminal


@pytest.mark.parametrize(
    ("text", "code"),
    [("name: BAD NAME\nrun: x\n", 10), (f"{SPEC}image: docker.io/me/mine\n", 11), (f"{SPEC}data: ''\n", 10)],
)
def test_what_is_wrong_is_said_before_anything_is_sent(desk: Shell, text: str, code: int) -> None:
    Path("job.yaml").write_text(text)
    assert desk("submit").code == code
    assert not desk.home.root.exists()


def test_follow_to_the_end(desk: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(seconds: float) -> None:
        job_id = desk.journal.find("support-bot").job.id
        desk.log(job_id, 1, b'{"step": 1, "loss": 2.5}\n', stream="metrics")
        desk.tell(job_id, 1, "resumed from nothing")
        desk.finish(job_id, State.FAILED, Reason.LIMIT_COST)

    times = itertools.count()
    shell = desk.at(lambda: float(next(times)), end)
    ran = shell("submit", "--follow")
    assert ran.code == 14
    assert ran.out.count("resumed from nothing") == ran.out.count("A machine is being looked for.") == 1
    lines = shell("submit", "--follow", "--json")
    assert lines.code == 14
    kinds = [next(iter(line)) for line in lines.lines]
    assert (kinds[0], kinds[-1]) == ("id", "status")
    assert "event" in kinds
