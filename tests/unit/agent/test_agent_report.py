"""Why it ended: a table of what is known and what may be said."""

from __future__ import annotations

import errno
import signal

import pytest

from gpujob.agent import report
from gpujob.agent.ending import Stop
from gpujob.agent.memory import oom_kills
from gpujob.core.errors import Damaged, Fenced, HostError, StoreDenied, StoreUnavailable
from gpujob.core.reasons import Reason
from gpujob.core.records import Verdict

TRACEBACK = ("Traceback (most recent call last):", '  File "t.py", line 3, in <module>', "ValueError: bad rank", "")
CUDA = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def ended(
    code: int, *said: str, stop: Stop | None = None, verdict: Verdict | None = None, kills: int = 0
) -> tuple[Reason, str]:
    ending = report.of_program("program", code, stop, verdict, said, kills)
    assert ending.code == code
    assert ending.evidence == said
    return ending.reason, ending.sentence


@pytest.mark.parametrize(
    ("code", "said", "kills", "reason", "sentence"),
    [
        (0, ("all well",), 0, Reason.DONE, "the program finished"),
        (1, TRACEBACK, 0, Reason.CRASHED, "the program ended with exit code 1: ValueError: bad rank"),
        (1, (), 0, Reason.CRASHED, "the program ended with exit code 1"),
        (2, ("usage: x", "unknown flag"), 0, Reason.CRASHED, "the program ended with exit code 2: unknown flag"),
        (1, ("a.b.MyError: no", "bye"), 0, Reason.CRASHED, "the program ended with exit code 1: a.b.MyError: no"),
        (1, (CUDA, "bye"), 0, Reason.OOM, f"the program ended with exit code 1: memory ran out: {CUDA}"),
        (1, ("RuntimeError: HIP out of memory",), 0, Reason.OOM, None),
        (1, ("MemoryError",), 0, Reason.OOM, None),
        (-9, (), 0, Reason.CRASHED, "the program was killed by signal 9 (SIGKILL) from outside"),
        (-9, (), 2, Reason.OOM, None),
        (137, (), 1, Reason.OOM, None),
        (137, (), 0, Reason.CRASHED, "the program ended with exit code 137 (that is signal 9 (SIGKILL), from outside)"),
        (-11, (), 5, Reason.CRASHED, "the program was killed by signal 11 (SIGSEGV) from outside"),
        (255, (), 0, Reason.CRASHED, "the program ended with exit code 255"),
        (1, ("OSError: [Errno 28] No space left on device",), 0, Reason.CRASHED, None),
    ],
)  # fmt: skip
def test_without_our_doing(code: int, said: tuple[str, ...], kills: int, reason: Reason, sentence: str | None) -> None:
    why = ended(code, *said, kills=kills)
    assert why[0] is reason
    assert sentence in (None, why[1])


def test_a_full_disk_is_named() -> None:
    assert "the disk is full" in ended(1, "No space left on device")[1]
    bare = OSError(errno.ENOSPC, "No space left on device", "/data/x")
    wrapped = HostError("unpack", "model.safetensors", "no space left on device")
    wrapped.__cause__ = bare
    for error in (bare, wrapped):
        ending = report.of_error(error)
        assert (ending.reason, "the disk is full" in ending.sentence) == (Reason.CRASHED, True)


LIMIT = Stop(Reason.LIMIT_TIME, "the time limit is reached")


@pytest.mark.parametrize("code", [0, 1, -9, 143])
def test_our_own_stop_comes_before_whatever_the_program_looks_like(code: int) -> None:
    lie = Verdict(reason=Reason.OOM, sentence="memory")
    assert ended(code, CUDA, stop=LIMIT, verdict=lie, kills=3) == (Reason.LIMIT_TIME, LIMIT.sentence)


def test_a_program_that_got_done_in_its_grace_is_done() -> None:
    done = Verdict(reason=Reason.DONE, sentence="trained")
    assert ended(0, stop=LIMIT, verdict=done) == (Reason.DONE, "trained")
    assert ended(1, stop=LIMIT, verdict=done)[0] is Reason.LIMIT_TIME
    for final in (Reason.CANCELLED, Reason.SUPERSEDED):
        assert ended(0, stop=Stop(final, "over"), verdict=done) == (final, "over")


@pytest.mark.parametrize("reason", [Reason.BAD_DATA, Reason.DIVERGED, Reason.BAD_SPEC, Reason.OOM, Reason.CRASHED])
@pytest.mark.parametrize("code", [0, 1])
def test_a_verdict_says_what_the_program_knows(reason: Reason, code: int) -> None:
    assert ended(code, verdict=Verdict(reason=reason, sentence="so it is")) == (reason, "so it is")


@pytest.mark.parametrize("reason", [Reason.SUPERSEDED, Reason.LIMIT_COST, Reason.CANCELLED, Reason.HOST_GONE])
def test_a_verdict_is_not_believed_about_what_a_program_cannot_know(reason: Reason) -> None:
    assert ended(1, "ValueError: x", verdict=Verdict(reason=reason, sentence="?"))[0] is Reason.CRASHED


def test_done_with_an_error_code_is_not_done() -> None:
    assert ended(1, verdict=Verdict(reason=Reason.DONE, sentence="trained"))[0] is Reason.CRASHED


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Fenced("go on with", "j", "taken over"), Reason.SUPERSEDED),
        (StoreUnavailable("read", "k", "away"), Reason.STORE_ERROR),
        (StoreDenied("read", "k", "no"), Reason.STORE_ERROR),
        (Damaged("use", "k", "differs"), Reason.STORE_ERROR),
        (HostError("unpack", "k", "too small"), Reason.CRASHED),
        (ZeroDivisionError("oh"), Reason.CRASHED),
    ],
)
def test_errors_of_our_own_work(error: Exception, reason: Reason) -> None:
    ending = report.of_error(error)
    assert ending.reason is reason
    expected = (
        str(error) if not isinstance(error, ZeroDivisionError) else "the agent itself failed: ZeroDivisionError: oh"
    )
    assert ending.sentence == expected


def test_a_verdict_that_cannot_be_read_is_none(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("v") / "verdict.json"
    assert report.read_verdict(path) is None
    path.write_text("{")
    assert report.read_verdict(path) is None
    path.write_text('{"reason": "DIVERGED", "sentence": "NaN", "more": 1}')
    assert report.read_verdict(path) == Verdict(reason=Reason.DIVERGED, sentence="NaN")


def test_the_kernels_count_of_killed_processes(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("m")
    cgroup, machine = folder / "memory.events", folder / "vmstat"
    assert oom_kills((cgroup, machine)) == 0
    machine.write_text("nr_free 12\noom_kill 3\n")
    assert oom_kills((cgroup, machine)) == 3
    cgroup.write_text("low 0\noom 9\noom_kill 2\noom_group_kill 0\n")
    assert oom_kills((cgroup, machine)) == 2


def test_signals_without_a_name_are_told_by_number() -> None:
    nameless = max(signal.Signals) + 1
    assert f"signal {nameless} from outside" in ended(-nameless)[1]
