"""When to checkpoint: often enough that a loss costs little, seldom enough that saving does.

Sources
    J. W. Young, "A first order approximation to the optimum checkpoint interval", Communications of the ACM
    17(9), 1974: sqrt(2 C M) for a save that costs C and losses that come every M on average.
    J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation
    Computer Systems 22(3), 2006: the same to first order, and good while C < M / 2.
"""

from __future__ import annotations

import math


def interval(save_seconds: float, mean_time_between_losses: float, *, at_least: float, at_most: float) -> float:
    """Give the seconds between checkpoints: sqrt(2 C M), within [`at_least`, `at_most`].

    Total: a negative number counts as zero, and one that is not a number is answered by `at_least`, since an early
    checkpoint measures what is unknown. Losses that never come (infinity) give `at_most`, unless saving is free.
    """
    product = 2 * max(save_seconds, 0.0) * max(mean_time_between_losses, 0.0)
    if any(math.isnan(each) for each in (save_seconds, mean_time_between_losses, product)):
        return at_least
    return max(at_least, min(math.sqrt(product), at_most))


def observed_mtbl(run_seconds: float, losses: int, prior_seconds: float) -> float:
    """Give the mean time between losses after `losses` of them in `run_seconds` of running.

    The rate has a Gamma prior worth one loss in `prior_seconds`; this is the inverse of its posterior mean,
    (run + prior) / (losses + 1). With nothing seen it is the prior, and with much seen run / losses. Negative and
    NaN times count as zero.
    """
    return (_time(run_seconds) + _time(prior_seconds)) / (max(losses, 0) + 1)


def _time(seconds: float) -> float:
    return seconds if seconds > 0 else 0.0
