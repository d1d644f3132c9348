"""Every verb over a real journal and a real store: what it says, its JSON, its exit codes."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from gpujob.checkpoints import head as heads
from gpujob.checkpoints import publish as publishing
from gpujob.client import secrets
from gpujob.client.journal import JournalEntry
from gpujob.core.errors import GpujobError, HostError, StoreDenied
from gpujob.core.job import State
from gpujob.core.layout import FILES, JobKeys
from gpujob.core.reasons import Reason
from support.checkpoints import checkpoint_folder, start, tree
from support.console import Shell

DONE, FAILED, BOT = "old-bot-aaaaaa", "bad-bot-bbbbbb", "support-bot-cccccc"
EVIL = "\x1b]0;owned\x07\x1b[31mred\u202e"


def raising(error: BaseException) -> Callable[..., None]:
    def fail(*args: object) -> None:
        raise error

    return fail


@pytest.fixture
def jobs(shell: Shell) -> Shell:
    """One job of each kind of end, and one that waits for its next attempt."""
    shell.add(DONE, State.SUCCEEDED, Reason.DONE, sentence="The training finished.", attempt=1, spent_seconds=60.0)
    shell.add(FAILED, State.FAILED, Reason.OOM, sentence="Memory ran out.", unreleased=("gpu-box",))
    shell.add(BOT, State.BACKOFF, sentence="The machine was told to stop.", attempt=1, step=12, durable_step=10)
    return shell


def test_ps_lists_what_runs_or_may_still_be_billing(jobs: Shell) -> None:
    ran = jobs("ps")
    rows = ran.out.splitlines()
    assert rows[0].split() == ["ID", "STATE", "STEP", "DURABLE", "AT", "RISK", "SPENT", "AGE", "HOST"]
    assert [row.split()[:3] for row in rows[1:3]] == [[BOT, "BACKOFF", "12"], [FAILED, "FAILED", "OOM"]]
    assert DONE not in ran.out
    assert f"{FAILED}: gpu-box may still be billing: it is not confirmed as released" in rows


def test_ps_json_lists_newest_first_and_damaged_ones(jobs: Shell) -> None:
    jobs.home.job("torn-dddddd").write_bytes(b"{")
    found = jobs("ps", "--all", "--json").json
    assert [job["id"] for job in found["jobs"]] == [BOT, FAILED, DONE]
    assert "torn-dddddd" in found["damaged"][0]["target"]
    assert jobs("ps").code == 0


def test_ps_without_jobs(shell: Shell) -> None:
    assert shell("ps").out == "no jobs\n"
    assert shell("ps", "--json").json == {"jobs": [], "damaged": []}


def test_status(jobs: Shell) -> None:
    text = jobs("status", BOT).out
    assert text.splitlines()[0] == f"{BOT}: The machine was told to stop."
    assert "durable:      step 10" in text
    assert "attention:    gpu-box may still be billing" in jobs("status", FAILED).out
    status = jobs("status", "support-bot", "--json").json
    assert (status["id"], status["state"], status["step"], status["durable_step"]) == (BOT, "BACKOFF", 12, 10)


def test_a_job_is_found_by_id_name_or_beginning(jobs: Shell) -> None:
    assert {jobs("status", word, "--json").json["id"] for word in (DONE, "old-bot", "old")} == {DONE}


def test_an_unknown_job_is_an_error_with_the_known_ones(jobs: Shell) -> None:
    ran = jobs("status", "nobody")
    assert ran.code == 2
    assert ran.err.startswith("error: cannot find job 'nobody'")
    assert BOT in ran.err
    error = jobs("status", "nobody", "--json").json["error"]
    assert (error["operation"], error["target"], error["problems"]) == ("find", "job 'nobody'", [])


@pytest.fixture
def locked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """No store lets anybody in."""
    monkeypatch.setattr("gpujob.store.open.open_store", raising(StoreDenied("open", "s3://bucket", "access denied")))


@pytest.mark.usefixtures("locked_out")
def test_a_store_that_cannot_be_had_hides_nothing_that_is_known(shell: Shell) -> None:
    shell.add(BOT, State.SUCCEEDED, Reason.DONE, sentence="Done.", step=7)
    status = shell("status", BOT, "--json").json
    assert (status["step"], status["stale"]) == (7, True)


@pytest.mark.parametrize(
    ("reason", "state", "code"),
    [
        (Reason.DONE, State.SUCCEEDED, 0),
        (Reason.CRASHED, State.FAILED, 12),
        (Reason.CANCELLED, State.CANCELLED, 13),
        (Reason.LIMIT_TIME, State.FAILED, 14),
    ],
)
def test_wait_exits_with_the_outcome(shell: Shell, reason: Reason, state: State, code: int) -> None:
    shell.add(BOT, state, reason, sentence="It is over.")
    assert (shell("wait", BOT).code, shell("wait", BOT).out) == (code, f"{BOT}: It is over.\n")


def test_wait_for_several_exits_with_the_first_that_did_not_succeed(shell: Shell) -> None:
    shell.add(DONE, State.SUCCEEDED, Reason.DONE)
    shell.add(FAILED, State.FAILED, Reason.OOM)
    shell.add(BOT, State.CANCELLED, Reason.CANCELLED)
    assert shell("wait", DONE, BOT, FAILED).code == 13
    ran = shell("wait", DONE, FAILED, "--json")
    assert ran.code == 12
    assert [job["reason"] for job in ran.json["jobs"]] == ["DONE", "OOM"]


def test_wait_gives_a_machine_time_to_be_released_but_not_for_ever(jobs: Shell) -> None:
    times = iter(range(0, 1000, 5))
    code = jobs.at(lambda: float(next(times)))("wait", FAILED).code
    assert code == 12
    assert 15 <= next(times) < 100


def test_waiting_sees_to_it_that_somebody_drives_the_job(jobs: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[object] = []
    monkeypatch.setattr("gpujob.client.supervisor.ensure_running", woken.append)
    times = iter(range(0, 1000, 5))
    jobs.at(lambda: float(next(times)))("wait", FAILED)
    assert len(woken) > 1


def test_a_store_is_opened_with_the_credentials_of_the_submit_else_of_now(
    jobs: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, str]] = []

    def opened(url: str, env: dict[str, str]) -> None:
        given.append(env)
        raise StoreDenied("open", url, "no")

    def in_a_bucket(entry: JournalEntry) -> JournalEntry:
        return entry.model_copy(update={"plan": entry.plan.model_copy(update={"store": "s3://bucket/jobs"})})

    monkeypatch.setattr("gpujob.client.tools.open_store", opened)
    jobs.journal.update(BOT, in_a_bucket)
    jobs.environ["AWS_ACCESS_KEY_ID"] = "now"
    jobs("logs", BOT)
    secrets.save(jobs.home, BOT, secrets.JobSecrets(store_env={"AWS_ACCESS_KEY_ID": "then"}))
    jobs("logs", BOT)
    assert [env["AWS_ACCESS_KEY_ID"] for env in given] == ["now", "then"]


def test_cancel_notes_the_wish(jobs: Shell) -> None:
    ran = jobs("cancel", BOT)
    assert ran.code == 0
    assert "gpujob wait" in ran.out
    assert jobs.journal.read(BOT).job.state in (State.STOPPING, State.CANCELLED)


def test_cancel_of_a_job_that_is_over_changes_nothing(jobs: Shell) -> None:
    before = jobs.journal.read(DONE)
    assert "is over: The training finished." in jobs("cancel", DONE).out
    assert jobs("cancel", DONE, "--json").json["state"] == "SUCCEEDED"
    assert jobs.journal.read(DONE) == before


@pytest.fixture
def logged(jobs: Shell) -> Shell:
    """Two attempts: a progress bar, a last line torn by a kill, an escape sequence, and bytes that are no text."""
    start(jobs.store, 1, DONE)
    start(jobs.store, 2, DONE)
    jobs.log(DONE, 1, b"one\ntwo\n", b"10%\r20%\r", b"30%")
    jobs.log(DONE, 2, EVIL.encode() + b"\n\xff\nlast")
    jobs.tell(DONE, 1, f"saved {EVIL}")
    return jobs


ALL_LINES = ["one", "two", "10%", "20%", "30%", "red\\u202e", "\ufffd", "last"]


def test_logs_are_lines_over_all_attempts_and_escaped(logged: Shell) -> None:
    assert logged("logs", DONE).out.splitlines() == ALL_LINES
    assert [line["line"] for line in logged("logs", DONE, "--json").lines][:5] == ALL_LINES[:5]


def test_logs_tail_and_attempt(logged: Shell) -> None:
    assert logged("logs", DONE, "-n", "2").out.splitlines() == ALL_LINES[-2:]
    assert logged("logs", DONE, "-n", "0").out == ""
    assert logged("logs", DONE, "--attempt", "1", "--tail", "1").out == "30%\n"
    ran = logged("logs", DONE, "--attempt", "3")
    assert (ran.code, "attempts so far are 1 to 2" in ran.err) == (2, True)
    assert logged("logs", DONE, "-f", "--attempt", "1").code == 2


def test_logs_follow_to_the_end_of_the_job(logged: Shell) -> None:
    assert logged("logs", DONE, "-f").out.splitlines() == ALL_LINES
    assert logged("logs", DONE, "-f", "-n", "3").out.splitlines() == ALL_LINES[-3:]


def test_logs_follow_prints_the_tail_before_it_waits(logged: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    logged.log(BOT, 1, b"a\nb\nc\n")
    start(logged.store, 1, BOT)
    seen: list[str] = []

    def sleep(seconds: float) -> None:
        seen.append(logged.printed())
        logged.store.put(JobKeys(BOT).attempt(1).segment("log", 2), b"d\n")
        logged.finish(BOT, State.CANCELLED, Reason.CANCELLED)

    ran = logged.at(lambda: 0.0, sleep)("logs", BOT, "-f", "-n", "2")
    assert seen == ["b\nc\n"]
    assert ran.out == "d\n"


def test_events_merge_what_client_and_agent_saw(logged: Shell) -> None:
    rows = logged("events", DONE).out.splitlines()
    assert [row.split(maxsplit=5)[2:] for row in rows] == [
        ["attempt", "1", "SUCCEEDED", f"{DONE} is SUCCEEDED."],
        ["attempt", "1", "agent", "saved red\\u202e"],
    ]
    assert [event["kind"] for event in logged("events", DONE, "--json").lines] == ["SUCCEEDED", "agent"]


@pytest.mark.usefixtures("locked_out")
def test_events_without_a_store_are_those_of_the_client(shell: Shell) -> None:
    shell.add(BOT, State.SUCCEEDED, Reason.DONE)
    assert shell("logs", BOT).code == 20
    ran = shell("events", BOT)
    assert (ran.code, len(ran.out.splitlines())) == (0, 1)
    assert ran.err.startswith("warning: ")


@pytest.fixture
def trained(jobs: Shell, tmp_path: Path) -> Shell:
    """A job with two durable checkpoints and a result."""
    held = start(jobs.store, 1, DONE)
    for step in (10, 20):
        publishing.publish(held, checkpoint_folder(tmp_path / "made", step), step, 0.0, keep=3)
    publishing.publish_result(held, checkpoint_folder(tmp_path / "made", 25), 25, 0.0)
    return jobs


def test_pull_brings_the_result(trained: Shell, tmp_path: Path) -> None:
    ran = trained("pull", DONE, "result")
    assert ran.out == "result of step 25: 7 files in result, every byte verified\n"
    assert tree(tmp_path / "result") == tree(tmp_path / "made" / "checkpoint-25")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "made", "result"]


def test_pull_of_a_checkpoint_into_the_folder_named_by_the_job(trained: Shell, tmp_path: Path) -> None:
    assert trained("pull", "old-bot", "--checkpoint", "--json").json["step"] == 20
    assert tree(tmp_path / DONE) == tree(tmp_path / "made" / "checkpoint-20")


def test_pull_never_overwrites_unless_told_to(trained: Shell, tmp_path: Path) -> None:
    target = tmp_path / "result"
    target.mkdir()
    assert trained("pull", DONE, "result").code == 0
    (target / "optimizer.pt").write_text("mine")
    (target / "notes.txt").write_text("mine too")
    ran = trained("pull", DONE, "result")
    assert (ran.code, "--force" in ran.err) == (2, True)
    assert (target / "optimizer.pt").read_text() == "mine"
    assert trained("pull", DONE, "result", "--force").code == 0
    assert tree(target) == {**tree(tmp_path / "made" / "checkpoint-25"), "notes.txt": b"mine too"}
    assert trained("pull", DONE, "result/notes.txt", "--force").code == 2


def test_pull_of_damaged_bytes_leaves_nothing(trained: Shell, tmp_path: Path) -> None:
    generation = heads.read(trained.store, DONE).generation
    trained.store.put(f"{JobKeys(DONE).result(generation)}{FILES}optimizer.pt", b"x" * 300)
    assert trained("pull", DONE, "result").code == 20
    assert not (tmp_path / "result").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "made"]


def test_pull_passes_over_a_damaged_checkpoint_out_loud(trained: Shell) -> None:
    generation = heads.read(trained.store, DONE).generation
    trained.store.put(f"{JobKeys(DONE).checkpoint(20, generation)}{FILES}optimizer.pt", b"x" * 300)
    ran = trained("pull", DONE, "newest", "--checkpoint")
    assert ran.out.startswith("checkpoint of step 10:")
    assert "step 20 is damaged" in ran.err


def test_pull_before_there_is_anything_says_what_there_is(trained: Shell, tmp_path: Path) -> None:
    held = start(trained.store, 1, BOT)
    assert trained("pull", BOT, "--checkpoint").code == 20
    publishing.publish(held, checkpoint_folder(tmp_path / "bot", 5), 5, 0.0, keep=3)
    ran = trained("pull", BOT)
    assert (ran.code, f"gpujob pull {BOT} --checkpoint" in ran.err) == (20, True)


def test_init_writes_a_template_and_never_overwrites(shell: Shell, tmp_path: Path) -> None:
    assert "gpujob submit new/job.yaml" in shell("init", "new").out
    path = tmp_path / "new" / "job.yaml"
    path.write_text("mine")
    assert shell("init", "new").code == 2
    assert path.read_text() == "mine"
    assert shell("init", "--json").json == {"path": "job.yaml"}
    assert shell("init", "job.yaml").code == 2


def test_what_init_writes_is_valid(shell: Shell, tmp_path: Path) -> None:
    shell("init")
    (tmp_path / "train.jsonl").write_text("{}\n")
    assert shell("validate").out == "job.yaml: fine, a job named my-job\n"
    assert shell("validate", "--json").json == {"valid": True, "path": "job.yaml", "name": "my-job"}


def test_validate_says_every_problem_with_its_place(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("name: x\nrunn: true\nrun: x\nlimits: {cots: 3}\n")
    ran = shell("validate")
    assert ran.code == 10
    assert [line.split(": ")[0] for line in ran.err.splitlines()] == ["job.yaml:2:1", "job.yaml:4:10"]
    problems = shell("validate", "job.yaml", "--json").json["error"]["problems"]
    assert [(each["line"], each["field"]) for each in problems] == [(2, "runn"), (4, "limits.cots")]
    assert shell("validate", "missing.yaml").code == 10


@pytest.mark.parametrize("words", [["ps", "-a"], ["status", BOT], ["events", BOT], ["logs", BOT], ["wait", BOT]])
def test_nothing_untrusted_reaches_a_pipe_as_it_came(shell: Shell, words: list[str]) -> None:
    shell.add(BOT, State.SUCCEEDED, Reason.DONE, sentence=EVIL, host=EVIL, unreleased=(EVIL,), attempt=1)
    start(shell.store, 1, BOT)
    shell.log(BOT, 1, EVIL.encode())
    shell.tell(BOT, 1, EVIL)
    times = iter(range(0, 1000, 5))
    ran = shell.at(lambda: float(next(times)))(*words)
    assert "red\\u202e" in ran.out
    assert not [char for char in ran.out + ran.err if unicodedata.category(char) in ("Cc", "Cf") and char != "\n"]


def test_an_unforeseen_error_is_our_bug_and_its_traceback_is_kept(jobs: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpujob.client.journal.Journal.find", raising(ZeroDivisionError("secret of the user")))
    ran = jobs("status", BOT)
    assert ran.code == 1
    assert "this is a bug of gpujob's" in ran.err
    assert "secret of the user" not in ran.err
    assert str(jobs.home.bug_log) in ran.err
    assert "ZeroDivisionError" in jobs.home.bug_log.read_text()
    assert jobs.home.bug_log.stat().st_mode & 0o777 == 0o600
    assert jobs("status", BOT, "--json").json["error"]["target"] == "ZeroDivisionError"
    jobs.environ["GPUJOB_DEBUG"] = "1"
    assert "Traceback" in jobs("status", BOT).err


def test_a_full_disk_is_no_bug(jobs: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "gpujob.client.journal.Journal.find", raising(OSError(28, "No space left on device", "/home/x"))
    )
    ran = jobs("status", BOT)
    assert (ran.code, ran.err) == (1, "error: cannot use /home/x: no space left on device\n")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (HostError("reach", "gpu-box", "it does not answer"), 21),
        (KeyboardInterrupt(), 130),
        (GpujobError("a", "b", "c"), 1),
    ],
)
def test_the_rest_of_the_codes(jobs: Shell, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int) -> None:
    monkeypatch.setattr("gpujob.client.journal.Journal.find", raising(error))
    assert jobs("status", BOT).code == code


def test_a_supervisor_that_cannot_start_hides_no_job(jobs: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpujob.client.supervisor.ensure_running", raising(HostError("start", "the supervisor", "no")))
    ran = jobs("ps")
    assert (ran.code, BOT in ran.out) == (0, True)
    assert ran.err.startswith("warning: cannot start the supervisor")
