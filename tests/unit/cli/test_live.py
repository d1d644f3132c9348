"""How a job looks: on a terminal, in a pipe, as JSON lines; all from the same looks."""

from __future__ import annotations

import io
import json
import unicodedata
from collections.abc import Iterator

import pytest
from rich.console import Console

from gpujob.cli import words
from gpujob.cli.call import Call
from gpujob.cli.follow import Look, follow, grown
from gpujob.cli.history import History
from gpujob.cli.live import panel
from gpujob.cli.output import Output
from gpujob.cli.views import JsonLines, Lines, line
from gpujob.client.status import Amount, Status
from gpujob.core.job import State
from gpujob.core.reasons import Reason
from gpujob.core.records import Event
from support.statuses import AT, a_status

PREEMPTED = Event(at=AT, attempt=1, kind="BACKOFF", text="The machine was told to stop. In 1 s attempt 2 starts.")
CALL = Call({}, Output({}), lambda: AT, lambda seconds: None)
NOTHING = History()
EVIL = "\x1b]52;c;cm0gLXJmIH4=\x07\x1b[2J[red]\u202eevil"


def drawn(status: Status, history: History = NOTHING) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=100, markup=False)
    with console.capture() as captured:
        console.print(panel(status, history))
    return captured.get()


def seen(*looks: Look) -> History:
    history = History()
    for look in looks:
        history = grown(history, look).with_events(look.events)
    return history


def plain_lines(capsys: pytest.CaptureFixture[str], *looks: Look) -> list[str]:
    view, history = Lines(Output({})), History()
    for look in looks:
        history = grown(history, look)
        view.show(look.status, look.events, history, look.at)
    return capsys.readouterr().out.splitlines()


def test_panel_shows_everything_a_person_asks_at_night() -> None:
    history = seen(
        Look(AT, a_status(step=1110), [PREEMPTED], [{"step": 1100, "loss": 2.0}, {"step": 1101, "loss": 1.0}]),
        Look(AT + 50, a_status(), [], [{"step": 1210, "loss": 1.5, "learning_rate": 1.5e-4}]),
    )
    text = drawn(a_status(), history)
    for part in (
        "support-bot-abc234  RUNNING  training  attempt 2 on gpu-box",
        "step 1,210/3,000 (40%)",
        "2.00 steps/s",
        "14 min 55 s left",
        "1.235  █▁▅",
        "0.00015",
        "step 1,200, 6 min 12 s old",
        "6 min 12 s, 0.31",
        "6 h 02 min, 2.31",
        "The machine was told to stop.",
    ):
        assert part in text


def test_free_machines_have_no_prices() -> None:
    text = drawn(a_status(at_risk=Amount(seconds=5), spent=Amount(seconds=60)))
    assert "0.00" not in text


def test_unreachable_and_unreleased_stand_out() -> None:
    text = drawn(a_status(state=State.UNREACHABLE, unreleased=("old-box",), trouble="disk full", stale=True))
    assert "gpu-box cannot be reached, and may still be billing" in text
    assert "old-box may still be billing" in text
    assert "disk full" in text
    assert "the store does not answer" in text


def test_a_job_without_any_number_yet() -> None:
    text = drawn(
        a_status(
            state=State.STARTING,
            phase=None,
            step=0,
            total_steps=None,
            loss=None,
            durable_step=0,
            at_risk=Amount(),
            spent=Amount(),
            host=None,
            sentence="Attempt 1 is being started.",
        )
    )
    assert "no checkpoint yet" in text
    assert "being started" in text
    assert "at risk" not in text


def test_nothing_of_a_rental_reaches_the_terminal_as_it_came() -> None:
    event = PREEMPTED.model_copy(update={"text": EVIL})
    status = a_status(state=State.BACKOFF, host=EVIL, sentence=EVIL, trouble=EVIL, unreleased=(EVIL,))
    history = seen(Look(AT, status, [event]))
    for text in (drawn(status, history), drawn(a_status(id=EVIL))):
        assert "[red]\\u202eevil" in text
        assert not [char for char in text if unicodedata.category(char) in ("Cc", "Cf") and char != "\n"]


def test_lines_come_with_changes_or_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    found = plain_lines(
        capsys,
        Look(AT, a_status(step=1201)),
        Look(AT + 1, a_status(step=1202)),
        Look(AT + 2, a_status(step=1203, durable_step=1203), [PREEMPTED]),
        Look(AT + 31, a_status(step=1240, durable_step=1203)),
        Look(AT + 31.5, a_status(step=1241, durable_step=1203)),
        Look(AT + 31.9, a_status(step=1241, durable_step=1203, state=State.UNREACHABLE)),
    )
    assert [part.split("  ")[0][9:] for part in found] == [
        "RUNNING",
        PREEMPTED.text,
        "RUNNING",
        "UNREACHABLE",
    ]
    assert "step 1,201/3,000 (40%)" in found[0]


def test_a_quiet_job_says_something_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    found = plain_lines(capsys, *(Look(AT + second, a_status(step=1200 + second)) for second in range(0, 91)))
    assert len(found) == 4


def test_lines_hold_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    event = PREEMPTED.model_copy(update={"text": EVIL})
    text = "".join(plain_lines(capsys, Look(AT, a_status(host=EVIL, trouble=EVIL), [event])))
    assert "evil" in text
    assert not [char for char in text if unicodedata.category(char) in ("Cc", "Cf")]


def test_json_lines_say_only_what_is_new(capsys: pytest.CaptureFixture[str]) -> None:
    view = JsonLines(Output({}, json=True))
    view.show(a_status(loss=float("nan")), [PREEMPTED], History(), AT)
    view.show(a_status(loss=float("nan")), [], History(), AT + 1)
    view.show(a_status(step=1211), [], History(), AT + 2)
    values = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert [list(value) for value in values] == [["event"], ["status"], ["status"]]
    assert values[1]["status"]["loss"] is None
    assert values[2]["status"]["step"] == 1211


def test_following_ends_with_the_sentence_and_the_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    end = a_status(state=State.FAILED, reason=Reason.LIMIT_COST, sentence="The cost limit was reached.", phase=None)
    code = follow(CALL, "support-bot-abc234", [Look(AT, a_status()), Look(AT + 1, end)])
    assert code == 14
    assert capsys.readouterr().out.splitlines()[-1] == "The cost limit was reached."


def test_ctrl_c_detaches_and_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    def looks() -> Iterator[Look]:
        yield Look(AT, a_status())
        raise KeyboardInterrupt

    code = follow(CALL, "support-bot-abc234", looks())
    assert code == 130
    assert "the job goes on. gpujob logs support-bot-abc234 -f, gpujob cancel" in capsys.readouterr().err


class Terminal(Output):
    """Standard output as a person's terminal."""

    def __init__(self) -> None:
        super().__init__({})
        self.screen = Console(file=io.StringIO(), force_terminal=True, width=100, markup=False, highlight=False)

    @property
    def on_terminal(self) -> bool:
        return True

    def console(self, *, stderr: bool = False) -> Console:
        return self.screen


@pytest.mark.parametrize("error", [KeyboardInterrupt, None])
def test_the_terminal_is_left_as_it_was_found(error: type[BaseException] | None) -> None:
    def looks() -> Iterator[Look]:
        yield Look(AT, a_status(), [PREEMPTED])
        if error:
            raise error
        yield Look(AT, a_status(state=State.SUCCEEDED, reason=Reason.DONE))

    terminal = Terminal()
    follow(Call({}, terminal, lambda: AT, lambda seconds: None), "support-bot-abc234", looks())
    assert isinstance(terminal.screen.file, io.StringIO)
    written = terminal.screen.file.getvalue()
    assert "The machine was told to stop." in written
    assert written.index("\x1b[?25l") < written.index("RUNNING") < written.rindex("\x1b[?25h")


def test_interruptions_stay_in_sight() -> None:
    passing = [PREEMPTED.model_copy(update={"kind": kind}) for kind in ("ACQUIRING", "SHIPPING", "STARTING")]
    assert History().with_events([PREEMPTED, *passing * 9]).events == (PREEMPTED,)
    assert len(History().with_events([PREEMPTED] * 99).events) < 10


def test_rate_is_that_of_the_newest_attempt() -> None:
    history = History().with_step(0, 1, 100).with_step(10, 1, 200).with_step(20, 2, 150)
    assert history.rate() is None
    assert history.with_step(30, 2, 155).rate() == pytest.approx(0.5)
    assert history.with_step(30, 2, 155).seconds_left(160) == pytest.approx(10)
    assert "2.0 s/step" not in line(a_status(), history)


def test_rate_follows_a_machine_that_got_slower() -> None:
    history = History()
    for second in range(0, 1000, 10):
        history = history.with_step(second, 1, second * 10)
    for second in range(1000, 1400, 10):
        history = history.with_step(second, 1, 10_000 + (second - 1000))
    assert history.rate() == pytest.approx(1.0)


def test_a_later_attempt_replaces_the_losses_of_an_earlier_one() -> None:
    lines = [{"step": 2, "loss": 9.0}, {"step": 1, "loss": 3.0}, {"step": 2, "loss": 2.0}]
    odd = [{"step": "x", "loss": 1.0}, {"step": 3, "loss": float("nan")}, {"step": 3, "loss": True}, {"loss": 1.0}]
    assert History().with_metrics([*lines, *odd]).curve() == [3.0, 2.0]


@pytest.mark.parametrize(
    ("values", "width", "bars"),
    [([], 8, ""), ([1.0], 8, ""), ([2.0, 2.0], 8, "▁▁"), ([8.0, 1.0], 8, "█▁"), ([4.0, 3.0, 2.0, 1.0], 2, "█▁")],
)
def test_spark(values: list[float], width: int, bars: str) -> None:
    assert words.spark(values, width) == bars
