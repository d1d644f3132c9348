from __future__ import annotations

from pathlib import Path

import pytest

from gpujob.report.curve import draw_curve, running_mean

LINES = [{"step": step, "loss": 3 / step, "learning_rate": 1e-4} for step in range(1, 100)]


def test_the_running_mean_is_of_the_last_values() -> None:
    assert running_mean([1.0, 2.0, 6.0, 10.0], 2) == [1.0, 1.5, 4.0, 8.0]
    assert running_mean([], 3) == []


@pytest.mark.parametrize(
    "lines", [LINES, LINES[:1], [*LINES, {"step": 50, "eval_loss": 2.0}, {"step": 99, "loss": None}]]
)
def test_a_picture_is_drawn_of_any_log(lines: list[dict[str, float]], tmp_path: Path) -> None:
    from PIL import Image

    path = tmp_path / "loss.png"
    draw_curve(lines, path, title="model", restarts=[30, 60])
    with Image.open(path) as image:
        assert image.size == (1200, 675)
        colours = {colour for _, colour in image.convert("RGB").getcolors(1 << 20)}
    assert len(colours) > 50
