from __future__ import annotations

from types import SimpleNamespace

import pytest

from gpujob.core.spec import Interval, Steps
from gpujob.trainer.pace import Cadence, FirstStep, Pace, fingerprint
from gpujob.trainer.stop import Stop


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def saves(wanted: Interval, step_seconds: float, steps: int, save_seconds: float = 1.0) -> list[int]:
    """Give the steps that are saved when every step takes as long."""
    clock = Clock()
    cadence = Cadence(wanted, clock)
    saved = []
    for step in range(1, steps + 1):
        clock.now += step_seconds
        if cadence.stepped(step):
            saved.append(step)
            clock.now += save_seconds
            cadence.saved(save_seconds)
    return saved


def test_every_so_many_steps() -> None:
    assert saves(Steps(steps=4), 1.0, 13) == [4, 8, 12]


def test_every_so_many_seconds_at_the_nearer_step() -> None:
    assert saves(60.0, 10.0, 20) == [6, 12, 18]
    assert saves(65.0, 25.0, 10) == [3, 6, 9]
    assert saves(60.0, 200.0, 3) == [1, 2, 3]


def test_auto_saves_early_once_then_by_cost() -> None:
    assert saves("auto", 0.5, 100)[0] == 60, "thirty seconds"
    assert saves("auto", 100.0, 8)[0] == 5, "five steps"
    dear = saves("auto", 10.0, 200, save_seconds=20.0)
    assert dear[1] - dear[0] == 54, "sqrt(2 * 20 * 7200) seconds"
    cheap = saves("auto", 10.0, 200, save_seconds=0.001)
    assert cheap[1] - cheap[0] == 3, "never more often than every thirty seconds"


def control() -> SimpleNamespace:
    return SimpleNamespace(should_save=False, should_evaluate=False, should_training_stop=False)


@pytest.mark.parametrize(
    ("step", "told", "save", "evaluate", "stop"),
    [
        (1, False, False, False, False),
        (3, False, False, True, False),
        (4, False, True, False, False),
        (3, True, True, False, True),
        (10, False, True, True, False),
        (10, True, True, False, True),
    ],
)
def test_what_happens_after_a_step(step: int, told: bool, save: bool, evaluate: bool, stop: bool) -> None:
    flag, after = Stop(), control()
    if told:
        flag._tell(15, None)
    pace = Pace(Cadence(Steps(steps=4), Clock()), flag, 3, evaluates=True)
    pace.on_step_end(None, SimpleNamespace(global_step=step, max_steps=10), after)
    assert (after.should_save, after.should_evaluate, after.should_training_stop) == (save, evaluate, stop)


def test_a_stop_is_not_heeded_once_ignored() -> None:
    stop = Stop()
    stop._tell(15, None)
    assert stop.wanted
    stop.ignore()
    assert not stop.wanted


def test_any_change_of_a_weight_shows() -> None:
    import torch

    for kind in (torch.float32, torch.bfloat16):
        model = torch.nn.Linear(3, 2).to(kind)
        before = fingerprint(model)
        assert fingerprint(model) == before
        with torch.no_grad():
            model.bias[1] = torch.nextafter(model.bias[1], torch.tensor(9, dtype=kind))
        assert fingerprint(model) != before


def test_a_first_step_that_teaches_nothing_ends_the_job() -> None:
    import torch

    from gpujob.trainer.endings import Ended

    model = torch.nn.Linear(3, 2)
    optimizer = SimpleNamespace(param_groups=[{"lr": 0.0}])
    first, state = FirstStep(), SimpleNamespace(global_step=0)
    first.on_pre_optimizer_step(None, state, None, model=model, optimizer=optimizer)
    first.on_optimizer_step(None, state, None, model=model)  # a warm-up from zero proves nothing
    optimizer.param_groups[0]["lr"] = 0.1
    first.on_pre_optimizer_step(None, state, None, model=model, optimizer=optimizer)
    with pytest.raises(Ended, match="step 1 changed none of the 2 trained tensors"):
        first.on_optimizer_step(None, state, None, model=model)
