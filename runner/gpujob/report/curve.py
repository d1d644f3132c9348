"""The loss curve as a picture: training, validation, learning rate, and where later attempts went on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from gpujob import files

_TRAIN, _EVAL, _RATE, _RESTART, _INK = "#2563eb", "#ea580c", "#94a3b8", "#dc2626", "#334155"
_FEW = 40
"""Up to so many steps every one is drawn plainly; with more, the noise steps back behind a running mean."""


def draw_curve(
    lines: Sequence[Mapping[str, Any]], path: Path, *, title: str = "", restarts: Sequence[int] = ()
) -> None:
    """Draw metrics lines into a PNG; `restarts` are the steps that later attempts went on from."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 5.4), dpi=125, layout="constrained")
    axes = figure.add_subplot()
    _draw_rate(axes.twinx(), lines)
    # The rate stays in the background: its axes are drawn first, and the loss's have no ground of their own.
    axes.set_zorder(2)
    axes.patch.set_visible(False)
    _draw_loss(axes, lines)
    for number, step in enumerate(restarts):
        label = None if number else "went on from a checkpoint"
        axes.axvline(step, color=_RESTART, linewidth=1, linestyle=(0, (4, 3)), alpha=0.8, label=label)
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold", color=_INK)
    figure.legend(loc="outside upper right", ncols=5, frameon=False, fontsize=9, labelcolor=_INK)
    with files.replacing(path) as temp:
        FigureCanvasAgg(figure).print_png(str(temp))


def running_mean(values: Sequence[float], width: int) -> list[float]:
    """Give the mean of each value and up to `width` - 1 before it."""
    sums = [0.0, *accumulate(values)]
    ends = range(1, len(sums))
    return [(sums[end] - sums[max(0, end - width)]) / min(end, width) for end in ends]


def _points(lines: Sequence[Mapping[str, Any]], key: str) -> tuple[list[int], list[float]]:
    found = [(line["step"], line[key]) for line in lines if line.get(key) is not None]
    return [step for step, _ in found], [value for _, value in found]


def _draw_loss(axes: Any, lines: Sequence[Mapping[str, Any]]) -> None:
    steps, losses = _points(lines, "loss")
    if len(steps) > _FEW:
        axes.plot(steps, losses, color=_TRAIN, linewidth=0.8, alpha=0.3)
        losses = running_mean(losses, max(5, len(steps) // 10))
    axes.plot(steps, losses, color=_TRAIN, linewidth=2, label="training loss", solid_capstyle="round")
    steps, losses = _points(lines, "eval_loss")
    if steps:
        axes.plot(steps, losses, color=_EVAL, linewidth=2, marker="o", markersize=5, label="validation loss")
    axes.set_xlabel("optimizer step", color=_INK)
    axes.set_ylabel("loss", color=_INK)
    axes.grid(axis="y", color="#e2e8f0", linewidth=0.8)
    axes.margins(x=0.02)
    axes.xaxis.get_major_locator().set_params(integer=True)
    _plain(axes, visible=("left", "bottom"))


def _draw_rate(axes: Any, lines: Sequence[Mapping[str, Any]]) -> None:
    steps, rates = _points(lines, "learning_rate")
    axes.fill_between(steps, rates, color=_RATE, alpha=0.12, linewidth=0)
    axes.plot(steps, rates, color=_RATE, linewidth=1, label="learning rate")
    axes.set_ylabel("learning rate", color="#64748b")
    axes.set_ylim(bottom=0)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(0, 0), useMathText=True)
    _plain(axes, visible=())


def _plain(axes: Any, visible: tuple[str, ...]) -> None:
    for side, spine in axes.spines.items():
        spine.set_visible(side in visible)
        spine.set_color("#cbd5e1")
    axes.tick_params(colors="#64748b", labelsize=9, length=0)
