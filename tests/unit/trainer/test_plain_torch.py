"""The example that people copy: killed, resumed, and the same to the last bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.desk import until
from support.training import Attempt

pytestmark = pytest.mark.real

PROGRAM = Path(__file__).parents[3] / "jobs" / "plain_torch" / "train.py"
STEPS = 100 * 16


def start(attempt: Attempt, resume: Path | None = None) -> subprocess.Popen[bytes]:
    attempt.checkpoints.mkdir(parents=True)
    contract = {
        "GPUJOB_CHECKPOINT_DIR": str(attempt.checkpoints),
        "GPUJOB_OUTPUT_DIR": str(attempt.output),
        "GPUJOB_METRICS": str(attempt.root / "metrics.jsonl"),
        "GPUJOB_RESUME_FROM": str(resume or ""),
        "GPUJOB_CHECKPOINT_INTERVAL": "0.02",
    }
    environ = {**os.environ, **contract, "EPOCHS": "100", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, str(PROGRAM)], env=environ)


def losses(*attempts: Attempt) -> dict[int, float]:
    return {line["step"]: line["loss"] for attempt in attempts for line in attempt.lines}


@pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143)])
def test_stopped_in_the_middle_it_ends_the_same(how: signal.Signals, code: int, tmp_path: Path) -> None:
    import torch

    calm, first, second = (Attempt(tmp_path / name) for name in ("calm", "first", "second"))
    undisturbed = start(calm)
    process = start(first)
    until(lambda: first.step > 200, "step 200")
    process.send_signal(how)
    assert process.wait() == code
    assert first.step < STEPS
    assert not first.output.exists()
    assert start(second, first.newest).wait() == 0
    assert undisturbed.wait() == 0
    weights, others = (torch.load(each.output / "model.pt") for each in (calm, second))
    assert all(torch.equal(weights[name], others[name]) for name in weights)
    assert losses(first, second) == losses(calm)
    assert len(losses(calm)) == STEPS
    assert losses(calm)[STEPS] < losses(calm)[1] / 4
    assert len(list(second.checkpoints.iterdir())) <= 2
