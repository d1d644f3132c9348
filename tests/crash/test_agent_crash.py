"""What is left when an agent, its store or its program fails at any moment, and what the next attempt makes of it."""

from __future__ import annotations

import random
import signal

import psutil
import pytest

from gpujob.core.reasons import Reason
from support.desk import kill, until
from support.rig import MakeRig, Rig

COUNTING = """
import shutil
number = resumed()
print("from", number)
if number:
    assert (Path(ENV["GPUJOB_RESUME_FROM"]) / "state").read_bytes().strip() == str(number).encode()
while number % 4 or not (Path(ENV["SIGNALS"]) / "finish").exists():
    number += 1
    step(number)
    if number % 4 == 0:
        save(number, size=50_000)
        shutil.rmtree(CHECKPOINTS / f"checkpoint-{number - 8}", ignore_errors=True)
    touch(f"step-{number}")
    time.sleep(0.004)
(OUTPUT / "number").write_text(str(number))
"""
"""Counts, keeps two checkpoints, and refuses to go on from one that is not its own."""


def test_killed_at_random_points_the_next_attempt_goes_on_from_the_newest_durable_checkpoint(
    make_rig: MakeRig, seed: int
) -> None:
    job = make_rig(COUNTING, checkpoint={"keep": 2})
    chance = random.Random(seed)
    for attempt in range(1, 7):
        durable = max(job.durable(), default=0)
        agent = job.start(attempt, beat_seconds=0.05)
        job.heard(f"step-{durable + chance.randint(1, 50)}", agent)
        kill(psutil.Process(agent.pid))
        until(lambda: not job.processes(), "nothing left of the killed attempt", 30)
        assert said(job, attempt) == f"from {durable}"
        for heard in job.signals.glob("step-*"):
            heard.unlink()
    job.tell("finish")
    durable = max(job.durable())
    last = job.run(7)
    assert (last.reason, last.step, last.durable_step) == (Reason.DONE, durable, durable)
    head = job.head()
    assert head.outcome is Reason.DONE
    assert head.result is not None
    assert head.spent_seconds > last.elapsed, "what the killed attempts had spent by their last beats is booked"
    assert len(head.checkpoints) == 2


def said(job: Rig, attempt: int) -> str:
    """Give the first line the program printed."""
    return job.host.attempt(attempt).log.read_text().splitlines()[0]


def test_a_checkpoint_becomes_durable_while_the_program_goes_on(make_rig: MakeRig) -> None:
    job = make_rig("save(1)\nwait_for('go')\nsave(2)\nwait_for('end')")
    agent = job.start()
    until(lambda: job.durable() == [1], "step 1 durable")
    assert job.beat().durable_step in (0, 1)
    job.tell("go")
    until(lambda: job.durable() == [2, 1], "step 2 durable")
    until(lambda: job.beat().durable_step == 2, "a beat that says so")
    job.tell("end")
    job.finish(agent)


def test_a_store_that_is_away_for_a_while_stops_nothing(make_rig: MakeRig) -> None:
    job = make_rig("save(1); wait_for('go'); print('meanwhile'); save(2); touch('second'); wait_for('end')")
    agent = job.start(module="support.switched_agent")
    until(lambda: job.durable() == [1], "step 1 durable")
    down = job.folder / "down"
    down.touch()
    job.tell("go")
    job.heard("second", agent)
    job.tell("end")
    until(lambda: not [each for each in job.processes() if "job.py" in " ".join(each.cmdline())], "the program's end")
    assert agent.poll() is None, "the agent waits with the last checkpoint and the result"
    assert job.durable() == [1]
    down.unlink()
    job.finish(agent)
    assert (job.report().reason, job.durable()) == (Reason.DONE, [2, 1])
    assert job.stream("log") == b"meanwhile\n"


def test_a_signal_is_answered_while_the_store_is_away(make_rig: MakeRig) -> None:
    job = make_rig("signal.signal(15, lambda *_: (save(5), sys.exit(1))); touch('ready'); wait_for('never')")
    agent = job.start(module="support.switched_agent")
    job.heard("ready", agent)
    down = job.folder / "down"
    down.touch()
    agent.send_signal(signal.SIGTERM)
    made = job.host.attempt(1).checkpoints / "checkpoint-5" / "COMPLETE"
    until(made.exists, "the saved checkpoint")
    down.unlink()
    job.finish(agent)
    assert (job.report().reason, job.durable()) == (Reason.PREEMPTED, [5])


def test_a_signal_before_the_store_has_ever_answered_ends_the_agent(make_rig: MakeRig) -> None:
    job = make_rig("pass")
    (job.folder / "down").touch()
    agent = job.start(module="support.switched_agent")
    until(lambda: psutil.Process(agent.pid).num_threads() > 1, "the agent at work")
    agent.send_signal(signal.SIGTERM)
    job.finish(agent, code=1)


def test_a_store_that_stays_away_ends_the_attempt_gracefully(make_rig: MakeRig) -> None:
    job = make_rig(
        "signal.signal(15, lambda *_: (save(5), sys.exit(1))); save(3); touch('ready'); wait_for('never')",
        limits={"startup": 1e9, "stall": 600.0, "grace": 30_000.0},
    )
    agent = job.start(module="support.switched_agent", environ={"CLOCK_SPEED": "3000"})
    until(lambda: job.durable() == [3], "a durable checkpoint")
    (job.folder / "down").touch()
    until((job.host.attempt(1).checkpoints / "checkpoint-5" / "COMPLETE").exists, "the saved checkpoint")
    (job.folder / "down").unlink()
    job.finish(agent)
    report = job.report()
    assert (report.reason, job.durable()) == (Reason.STORE_ERROR, [5, 3])
    assert report.sentence.startswith("the store has not answered for 15 min 00 s")


SECRETS = {"TOKEN": "hf_planted0123456789", "KEY": "-----BEGIN-----\nplanted-line-2\nplanted-line-3\n-----END-----\n"}
PLANTED = ("hf_planted0123456789", "planted-line-2", "planted-line-3", "wJalrPlantedStoreKey")


@pytest.mark.parametrize("ending", ["", "raise ValueError(ENV['TOKEN'])", "os.kill(os.getpid(), 9)"])
def test_planted_secrets_are_nowhere(make_rig: MakeRig, ending: str) -> None:
    job = make_rig(
        f"""
for value in (ENV["TOKEN"], ENV["KEY"]):
    print("it is", value, value[:3], flush=True)
    step(1, note=value)
    sys.stdout.write(value[:10]); sys.stdout.flush(); time.sleep(0.05); print(value[10:])
    sys.stderr.write("x" * 70_000 + value)
verdict = Path(ENV["GPUJOB_VERDICT"])
if {ending!r}:
    verdict.write_text(json.dumps({{"reason": "CRASHED", "sentence": "it was " + ENV["TOKEN"]}}))
{ending}
""",
        secrets=list(SECRETS),
        setup='echo "$KEY"; echo "$TOKEN" >&2',
    )
    report = job.run(secrets=SECRETS, store_env={"AWS_SECRET_ACCESS_KEY": "wJalrPlantedStoreKey"})
    assert report.reason is (Reason.CRASHED if ending else Reason.DONE)
    paths = job.host.attempt(1)
    # The metrics file and the verdict are the program's own, on the machine that has the secret anyway.
    paths.metrics.unlink()
    paths.verdict.unlink(missing_ok=True)
    everything = job.everything()
    assert b"it is ***" in everything
    assert [planted for planted in PLANTED if planted.encode() in everything] == []
