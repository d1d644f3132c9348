"""Real agents and real programs: every ending leaves a report with the right reason, and no process."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from gpujob import bundle
from gpujob.checkpoints import head, lease
from gpujob.core.layout import JobKeys, blob
from gpujob.core.reasons import Reason
from gpujob.core.records import Intent
from support.desk import kill, until
from support.rig import JOB, MakeRig

WAITING = "touch('ready'); wait_for('never')\n"
SAVING = """
def saved(*_):
    save(7)
    sys.exit(0)
signal.signal(signal.SIGTERM, saved)
step(6)
touch('ready')
wait_for('never')
"""


def test_done(make_rig: MakeRig) -> None:
    job = make_rig(
        """
print("hello")
for number in range(1, 4):
    step(number, total_steps=3)
save(3)
(OUTPUT / "model").write_text("trained")
"""
    )
    report = job.run(price_per_hour=3600.0)
    assert (report.reason, report.step, report.durable_step, report.exit_code) == (Reason.DONE, 3, 3, 0)
    head = job.head()
    assert (head.outcome, head.lease) == (Reason.DONE, None)
    assert head.result is not None
    assert head.spent_seconds == report.elapsed > 0
    assert head.spent_cost == pytest.approx(report.elapsed)
    assert job.stream("log") == b"hello\n"
    assert job.stream("metrics").count(b"\n") == 3
    assert job.beat().durable_step == 3


def test_a_crash_is_told_by_its_last_error(make_rig: MakeRig) -> None:
    job = make_rig("step(1); save(1); import no_such_module")
    report = job.run()
    assert (report.reason, report.exit_code, report.durable_step) == (Reason.CRASHED, 1, 1)
    assert report.sentence.endswith("ModuleNotFoundError: No module named 'no_such_module'")
    assert "Traceback (most recent call last):" in report.evidence
    head = job.head()
    assert (head.lease, head.outcome, head.spent_seconds) == (None, None, report.elapsed)


def test_setup_runs_first_and_its_failure_ends_the_attempt(make_rig: MakeRig) -> None:
    job = make_rig("touch('started')", setup="echo setting up; exit 3")
    report = job.run()
    assert (report.reason, report.exit_code) == (Reason.CRASHED, 3)
    assert report.sentence == "the setup ended with exit code 3: setting up"
    assert not (job.signals / "started").exists()


def test_what_setup_makes_is_there_for_the_program(make_rig: MakeRig) -> None:
    job = make_rig("print(Path('made').read_text())", setup="echo -n by setup > made")
    assert job.run().reason is Reason.DONE
    assert job.stream("log") == b"by setup\n"


def test_a_program_may_say_why_it_ends(make_rig: MakeRig) -> None:
    verdict = '{"reason": "DIVERGED", "sentence": "the loss is NaN at step 4"}'
    job = make_rig(f"Path(ENV['GPUJOB_VERDICT']).write_text('{verdict}'); sys.exit(9)")
    report = job.run()
    assert (report.reason, report.sentence) == (Reason.DIVERGED, "the loss is NaN at step 4")
    assert job.head().outcome is Reason.DIVERGED


def test_killed_from_outside_is_no_memory_problem(make_rig: MakeRig) -> None:
    job = make_rig("touch('ready'); os.kill(os.getpid(), signal.SIGKILL)")
    report = job.run()
    assert (report.reason, report.signal, report.exit_code) == (Reason.CRASHED, 9, None)
    assert report.sentence == "the program was killed by signal 9 (SIGKILL) from outside"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_preempts(make_rig: MakeRig, number: signal.Signals) -> None:
    job = make_rig(SAVING)
    agent = job.start()
    job.heard("ready", agent)
    agent.send_signal(number)
    job.finish(agent)
    report = job.report()
    assert (report.reason, report.durable_step, report.step) == (Reason.PREEMPTED, 7, 7)
    assert number.name in report.sentence
    head = job.head()
    assert (head.lease, head.outcome, head.result) == (None, None, None)


def test_a_cancel_is_seen_in_the_head(make_rig: MakeRig) -> None:
    job = make_rig(SAVING)
    agent = job.start()
    job.heard("ready", agent)
    head.update(job.store, JOB, lambda old: old.model_copy(update={"intent": Intent.CANCEL}))
    job.finish(agent)
    report = job.report()
    assert (report.reason, report.durable_step) == (Reason.CANCELLED, 7)
    assert job.head().outcome is Reason.CANCELLED


def test_a_signal_that_comes_with_a_cancel_is_a_cancel(make_rig: MakeRig) -> None:
    job = make_rig(SAVING)
    agent = job.start(beat_seconds=60.0)
    job.heard("ready", agent)
    head.update(job.store, JOB, lambda old: old.model_copy(update={"intent": Intent.CANCEL}))
    agent.send_signal(signal.SIGTERM)
    job.finish(agent)
    assert job.report().reason is Reason.CANCELLED


def test_superseded_it_stops_at_once_and_leaves_the_head_alone(make_rig: MakeRig) -> None:
    job = make_rig("signal.signal(signal.SIGTERM, lambda *_: save(9))\nsave(1)\n" + WAITING)
    agent = job.start()
    job.heard("ready", agent)
    until(lambda: job.durable() == [1], "a durable checkpoint")
    lease.acquire(job.store, JOB, 2, "the next attempt", 0)
    before = job.store.get(job.keys.head)
    job.finish(agent)
    assert job.report().reason is Reason.SUPERSEDED
    assert "attempt 2 (generation 2) has taken it over" in job.report().sentence
    assert job.store.get(job.keys.head) == before
    assert b'"ended"' not in job.stream("events")
    assert not list(job.host.attempt(1).checkpoints.glob("*9")), "it was killed, not asked"


def test_an_attempt_that_comes_too_late_says_so(make_rig: MakeRig) -> None:
    job = make_rig(WAITING)
    lease.acquire(job.store, JOB, 2, "somebody", 0)
    report = job.run(attempt=1)
    assert report.reason is Reason.SUPERSEDED
    assert not (job.signals / "ready").exists()


def test_the_report_of_another_agent_of_the_same_attempt_is_not_touched(make_rig: MakeRig) -> None:
    job = make_rig(WAITING)
    lease.acquire(job.store, JOB, 1, "somebody", 0)
    job.finish(job.start(), code=1)
    assert not [*job.store.list(job.keys.attempt(1).exit)]


def test_a_second_agent_of_an_attempt_leaves_quietly(make_rig: MakeRig) -> None:
    job = make_rig(WAITING)
    agent = job.start()
    job.heard("ready", agent)
    second = job.start()
    until(lambda: second.poll() is not None, "the second agent's end")
    assert (second.returncode, agent.poll()) == (0, None)


@pytest.mark.parametrize(
    ("limits", "launch", "reason"),
    [
        ({"duration": 2.0}, {}, Reason.LIMIT_TIME),
        ({"cost": 2.0}, {"price_per_hour": 3600.0}, Reason.LIMIT_COST),
    ],
)
def test_limits_leave_room_for_the_grace(
    make_rig: MakeRig, limits: dict[str, float], launch: dict[str, float], reason: Reason
) -> None:
    job = make_rig(SAVING, limits=limits)
    report = job.run(**launch)
    assert (report.reason, job.head().outcome) == (reason, reason)
    assert report.elapsed >= 1.0


def test_limits_count_earlier_attempts(make_rig: MakeRig) -> None:
    job = make_rig(WAITING, limits={"duration": 3600.0, "grace": 1.0})
    head.update(job.store, JOB, lambda old: old.model_copy(update={"spent_seconds": 3599.5}))
    assert job.run().reason is Reason.LIMIT_TIME


def test_no_first_step_is_a_stall(make_rig: MakeRig) -> None:
    job = make_rig("wait_for('never')", limits={"startup": 0.5})
    report = job.run()
    assert (report.reason, report.sentence) == (Reason.STALLED, "the training made no first step within 0 s")


def test_output_counts_only_until_there_are_steps(make_rig: MakeRig) -> None:
    job = make_rig(
        """
step(1)
while True:
    print("still here")
    time.sleep(0.02)
""",
        limits={"startup": 60.0, "stall": 0.5},
    )
    report = job.run()
    assert (report.reason, report.step) == (Reason.STALLED, 1)
    assert report.evidence[-1] == "still here"


def test_output_is_progress_for_a_program_that_reports_no_steps(make_rig: MakeRig) -> None:
    job = make_rig(
        """
for number in range(60):
    print("working")
    time.sleep(0.02)
""",
        limits={"startup": 0.3, "stall": 1.0},
    )
    assert job.run().reason is Reason.DONE


def test_a_missing_blob_ends_in_a_report(make_rig: MakeRig) -> None:
    job = make_rig("pass")
    (entry,) = bundle.read(job.store, JOB).parts["code"]
    job.store.delete(blob(entry.blake3))
    report = job.run()
    assert report.reason is Reason.STORE_ERROR
    assert "cannot unpack job.py" in report.sentence


@pytest.mark.parametrize("key", ["plan", "bundle"])
@pytest.mark.parametrize("content", [None, b"{}", b"no json"])
def test_a_broken_job_ends_in_a_report(make_rig: MakeRig, key: str, content: bytes | None) -> None:
    job = make_rig("pass")
    name = getattr(JobKeys(JOB), key)
    if content is None:
        job.store.delete(name)
    else:
        job.store.put(name, content)
    report = job.run()
    assert report.reason is Reason.STORE_ERROR
    assert name in report.sentence or "the plan of job" in report.sentence
    assert job.head().lease is None


def test_nothing_whole_to_restore_is_not_a_start_from_zero(make_rig: MakeRig) -> None:
    job = make_rig("save(resumed() + 1)")
    job.run(1)
    for info in list(job.store.list(job.keys.checkpoints)):
        job.store.put(info.key, b"damaged")
    head.update(job.store, JOB, lambda old: old.model_copy(update={"outcome": None}))
    report = job.run(2)
    assert report.reason is Reason.STORE_ERROR
    assert "all its checkpoints are damaged" in report.sentence


def test_a_failure_of_the_agent_itself_kills_the_program_and_is_told(make_rig: MakeRig) -> None:
    job = make_rig("touch('ready'); wait_for('never')")
    agent = job.start()
    job.heard("ready", agent)
    job.host.attempt(1).checkpoints.rmdir()
    job.host.attempt(1).checkpoints.touch()  # nobody foresaw a file there
    job.finish(agent)
    report = job.report()
    assert report.reason is Reason.CRASHED
    assert report.sentence.startswith("the agent itself failed: NotADirectoryError")
    assert any("Traceback" in line for line in report.evidence)


def test_a_full_disk_is_named(make_rig: MakeRig) -> None:
    job = make_rig("raise OSError(28, 'No space left on device')")
    report = job.run()
    assert (report.reason, report.sentence) == (
        Reason.CRASHED,
        "the program ended with exit code 1: the disk is full: OSError: [Errno 28] No space left on device",
    )


STUBBORN = """
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.environ.clear()
    command = "import time; open('grandchild', 'w').close(); time.sleep(1000)"
    os.execve(sys.executable, [sys.executable, "-c", command], {})
while not Path('grandchild').exists():
    time.sleep(0.01)
"""


def test_nothing_survives_the_grace(make_rig: MakeRig) -> None:
    """Neither a program that ignores SIGTERM, nor its double-forked grandchild in another session without cookies."""
    job = make_rig(STUBBORN + WAITING, limits={"grace": 0.2})
    agent = job.start()
    job.heard("ready", agent)
    before = [each for each in psutil.Process(agent.pid).children(recursive=True) if lives(each)]
    grandchild = [each for each in before if "grandchild" in " ".join(each.cmdline())]
    assert len(grandchild) == 1
    assert "GPUJOB_ID" not in grandchild[0].environ()
    agent.send_signal(signal.SIGTERM)
    job.finish(agent)
    assert job.report().reason is Reason.PREEMPTED
    assert [each for each in before if lives(each)] == []


def lives(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_nothing_survives_a_program_that_is_done(make_rig: MakeRig) -> None:
    job = make_rig(STUBBORN + "touch('pid')")
    assert job.run().reason is Reason.DONE


def test_a_shell_that_dies_of_sigterm_does_not_take_the_grace_from_its_program(make_rig: MakeRig) -> None:
    slow = SAVING.replace("save(7)", "time.sleep(0.3); save(7)")
    job = make_rig(
        slow, run="python job.py; true", env={"PATH": f"{Path(psutil.Process().exe()).parent}:/usr/bin:/bin"}
    )
    agent = job.start()
    job.heard("ready", agent)
    agent.send_signal(signal.SIGTERM)
    job.finish(agent)
    assert (job.report().reason, job.report().durable_step) == (Reason.PREEMPTED, 7)


def test_killed_by_force_the_agent_takes_everything_along(make_rig: MakeRig) -> None:
    job = make_rig(
        "import subprocess; subprocess.Popen(['sleep', '1000'])\n" + WAITING,
        run="python job.py; true",
        env={"PATH": f"{Path(psutil.Process().exe()).parent}:/usr/bin:/bin"},
    )
    agent = job.start()
    job.heard("ready", agent)
    assert len(job.processes()) >= 5, "the agent, its guard, the shell, the program, what that started"
    kill(psutil.Process(agent.pid))
    until(lambda: not job.processes(), "nothing left", 30)
