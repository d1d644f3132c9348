"""What happens after which step: evaluate, save, stop. And the proof that the first step taught anything."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from transformers import TrainerCallback

from gpujob.core.cadence import interval
from gpujob.core.spec import Interval, Steps
from gpujob.trainer.endings import bad_spec
from gpujob.trainer.stop import Stop

FIRST_SAVE_STEPS = 5
FIRST_SAVE_SECONDS = 30.0
MEAN_TIME_BETWEEN_LOSSES = 7200.0
"""Seconds. A guess for rented machines, on the careful side: a save too many costs less than a lost half hour."""
LONGEST = 1800.0
SHORTEST = 30.0
SAVING_SHARE = 20
"""Saving takes at most one part in so many of the training."""


class Cadence:
    """When a checkpoint is due: every N steps, every so many seconds, or as the cost of saving tells."""

    def __init__(self, wanted: Interval, clock: Callable[[], float] = time.monotonic) -> None:
        self._wanted, self._clock = wanted, clock
        self._since = self._last_step = clock()
        self._steps = 0
        self._save_seconds: float | None = None

    def stepped(self, step: int) -> bool:
        """Note that an optimizer step ended; say whether to save now."""
        now = self._clock()
        step_seconds, self._last_step = now - self._last_step, now
        self._steps += 1
        if isinstance(self._wanted, Steps):
            return step % self._wanted.steps == 0
        # A save can only come between two steps: of the two that are nearest to the moment, take the nearer one.
        return self._enough_steps() and now - self._since + step_seconds / 2 >= self._seconds()

    def saved(self, seconds: float) -> None:
        """Note that a save ended and how long it took."""
        self._save_seconds = seconds
        self._since = self._last_step = self._clock()

    def _enough_steps(self) -> bool:
        return self._wanted != "auto" or self._save_seconds is not None or self._steps >= FIRST_SAVE_STEPS

    def _seconds(self) -> float:
        if isinstance(self._wanted, float):
            return self._wanted
        if self._save_seconds is None:
            return FIRST_SAVE_SECONDS
        at_least = max(SHORTEST, SAVING_SHARE * self._save_seconds)
        return interval(self._save_seconds, MEAN_TIME_BETWEEN_LOSSES, at_least=at_least, at_most=max(LONGEST, at_least))


class Pace(TrainerCallback):  # type: ignore[misc]
    """Decide after every step; the last one is always evaluated and saved."""

    def __init__(self, cadence: Cadence, stop: Stop, eval_steps: int | None, *, evaluates: bool) -> None:
        self._cadence, self._stop = cadence, stop
        self._eval_steps, self._evaluates = eval_steps, evaluates

    def evaluation_due(self, step: int, total: int) -> bool:
        """Say whether the loss on the validation rows belongs to this step."""
        every = self._eval_steps
        return self._evaluates and step > 0 and (step >= total or (every is not None and step % every == 0))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Set what the loop does next."""
        last = state.global_step >= state.max_steps
        stop = self._stop.wanted
        control.should_save = self._cadence.stepped(state.global_step) or last or stop
        # An evaluation may take minutes, and the machine has seconds: the next attempt does it.
        control.should_evaluate = self.evaluation_due(state.global_step, state.max_steps) and not stop
        control.should_training_stop = control.should_training_stop or stop


class FirstStep(TrainerCallback):  # type: ignore[misc]
    """Assert that the first step with a learning rate moved the weights: nobody pays for a night of nothing."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None
        self._proven = False

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **trainer: Any) -> None:
        """Remember the weights; during a warm-up from zero there is nothing to see yet."""
        rates = [group["lr"] for group in trainer["optimizer"].param_groups]
        if not self._proven and max(rates) > 0:
            self._before = fingerprint(trainer["model"])

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **trainer: Any) -> None:
        """Compare."""
        if self._before is None:
            return
        if self._before == fingerprint(trainer["model"]):
            raise bad_spec(
                f"step {state.global_step + 1} changed none of the {len(self._before)} trained tensors: the learning "
                "rate is too small for the weights' number type, or no gradient reaches them"
            )
        self._proven, self._before = True, None


def fingerprint(model: Any) -> list[Any]:
    """Add up the bits of every trained tensor: any update shows, and nothing is copied."""
    kinds = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    trained = (each.detach() for each in model.parameters() if each.requires_grad)
    sums = [each.view(kinds[each.element_size()]).sum(dtype=torch.int64) for each in trained]
    return list(torch.stack(sums).tolist())
