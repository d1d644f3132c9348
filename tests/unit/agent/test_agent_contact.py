"""The agent and its store: beating, insisting, giving up; with a clock that only the test moves."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from gpujob.agent.beat import Beat
from gpujob.agent.clock import Clock
from gpujob.agent.ending import Stopped
from gpujob.agent.notices import Notices
from gpujob.agent.patience import Patience
from gpujob.agent.work import Repeated, Work
from gpujob.checkpoints import head, lease
from gpujob.checkpoints.lease import Held
from gpujob.core.errors import Fenced, StoreDenied, StoreUnavailable
from gpujob.core.layout import JobKeys
from gpujob.core.reasons import Reason
from gpujob.core.records import Heartbeat, Intent, Phase
from gpujob.store.memory import MemoryStore
from gpujob.store.protocol import Progress
from support.checkpoints import JOB, start


class Away(MemoryStore):
    """A store that can be switched off."""

    away = False

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        if self.away:
            raise StoreUnavailable("read", key, "away")
        return super().get(key, start=start, length=length)


class Scene:
    def __init__(self) -> None:
        self.now, self.woken = 100.0, 0
        self.store = Away()
        self.clock = Clock(now=lambda: self.now, monotonic=lambda: self.now)
        self.held = start(self.store)
        self.beat = Beat(self.held, self.heartbeat, self.clock, self.wake)

    def heartbeat(self) -> Heartbeat:
        return Heartbeat(
            attempt=1, generation=1, holder=self.held.holder, at=self.now, phase=Phase.TRAINING, elapsed=self.now
        )

    def wake(self) -> None:
        self.woken += 1

    def beaten_at(self) -> float:
        return Heartbeat.decode(self.store.get(JobKeys(JOB).attempt(1).beat)).at


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_beat_is_written_and_the_contact_noted(scene: Scene) -> None:
    scene.now = 105.0
    scene.beat.round()
    assert (scene.beaten_at(), scene.beat.contact_at, scene.woken) == (105.0, 105.0, 0)


def test_a_store_that_is_away_is_noted_until_it_is_back(scene: Scene) -> None:
    scene.store.away, scene.now = True, 110.0
    scene.beat.round()
    assert isinstance(scene.beat.failure, StoreUnavailable)
    assert (scene.beat.contact_at, scene.woken) == (100.0, 0)
    scene.store.away, scene.now = False, 120.0
    scene.beat.round()
    assert (scene.beat.failure, scene.beat.contact_at) == (None, 120.0)


def test_a_head_that_cannot_be_read_is_no_contact(scene: Scene) -> None:
    scene.store.put(JobKeys(JOB).head, b"{")
    scene.beat.round()
    assert scene.beat.failure is not None
    assert scene.beat.contact_at == 100.0


@pytest.mark.parametrize("intent", [Intent.STOP, Intent.CANCEL])
def test_an_intent_wakes_the_agent(scene: Scene, intent: Intent) -> None:
    head.update(scene.store, JOB, lambda old: old.model_copy(update={"intent": intent}))
    scene.beat.round()
    assert (scene.beat.intent, scene.woken) == (intent, 1)


def test_a_superseded_attempt_beats_no_more(scene: Scene) -> None:
    scene.beat.round()
    lease.acquire(scene.store, JOB, 2, "next", 0)
    scene.now = 130.0
    scene.beat.round()
    scene.beat.round()
    assert isinstance(scene.beat.fenced, Fenced)
    assert (scene.beaten_at(), scene.woken) == (100.0, 1)


@pytest.fixture
def notices() -> Iterator[Notices]:
    with Notices() as each:
        yield each


class Answers:
    """Gives or raises one answer after the other; every try takes ten seconds of the test's clock."""

    def __init__(self, scene: Scene, *answers: object) -> None:
        self.scene, self.answers = scene, list(answers)

    def __call__(self, moved: Progress) -> object:
        self.scene.now += 10
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if answer == "moving":
            moved(1)
            raise AWAY
        return answer


AWAY = StoreUnavailable("write", "it", "away")


def insist(scene: Scene, notices: Notices, answers: Answers, *, heed_stop: bool = False) -> object:
    return Patience(notices, scene.clock, 25.0, 0.001, heed_stop=heed_stop).insist("write to", answers)


def test_insisting_outlasts_a_store_that_comes_back(scene: Scene, notices: Notices) -> None:
    assert insist(scene, notices, Answers(scene, AWAY, AWAY, "there")) == "there"


def test_patience_ends(scene: Scene, notices: Notices) -> None:
    answers = Answers(scene, AWAY, AWAY, AWAY, "too late")
    with pytest.raises(StoreUnavailable):
        insist(scene, notices, answers)
    assert answers.answers == ["too late"]


def test_what_moves_is_waited_for(scene: Scene, notices: Notices) -> None:
    assert insist(scene, notices, Answers(scene, AWAY, "moving", AWAY, "moving", AWAY, "there")) == "there"


def test_other_errors_are_not_insisted_upon(scene: Scene, notices: Notices) -> None:
    answers = Answers(scene, StoreDenied("write", "it", "no"), "there")
    with pytest.raises(StoreDenied):
        insist(scene, notices, answers)
    assert answers.answers == ["there"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_insisting_only_where_nothing_is_lost(
    scene: Scene, notices: Notices, number: signal.Signals
) -> None:
    signal.raise_signal(number)
    assert insist(scene, notices, Answers(scene, AWAY, "there")) == "there"
    with pytest.raises(Stopped) as stopped:
        insist(scene, notices, Answers(scene, AWAY, AWAY), heed_stop=True)
    assert stopped.value.stop.reason is Reason.PREEMPTED
    assert number.name in stopped.value.stop.sentence


def test_signals_are_put_back_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Notices() as notices:
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
    notices.wake()  # by a thread that outlives the attempt


def test_a_repeated_call_that_fails_says_so(notices: Notices) -> None:
    calls: list[int] = []

    def act() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise ZeroDivisionError

    repeated = Repeated(act, 0.001, notices.wake, "test")
    notices.wait(30)
    repeated.stop(30)
    assert isinstance(repeated.failure, ZeroDivisionError)
    assert len(calls) == 3


def test_work_gives_what_it_made_or_raises(notices: Notices) -> None:
    assert Work(lambda: 7, notices.wake, "test", gentle=True).result() == 7
    with pytest.raises(ZeroDivisionError):
        Work(lambda: 1 // 0, notices.wake, "test").result()
    notices.wait(30)  # woken: a wait for nothing would fail the suite's time limit


def test_a_lease_is_needed_to_beat(scene: Scene) -> None:
    stranger = Held(scene.store, JOB, 1, 1, "somebody else")
    beat = Beat(stranger, scene.heartbeat, scene.clock, scene.wake)
    beat.round()
    assert beat.fenced is not None
