"""Any PyTorch program as a job. It imports nothing of gpujob: environment variables and files are the whole contract.
Killed at any moment and started again, it ends with the same weights, bit for bit, as if nothing had happened.
"""

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import torch
from torch import nn

CHECKPOINTS = Path(os.environ["GPUJOB_CHECKPOINT_DIR"])
OUTPUT = Path(os.environ["GPUJOB_OUTPUT_DIR"])
INTERVAL = float(os.environ.get("GPUJOB_CHECKPOINT_INTERVAL") or 10)
ROWS, BATCH = 512, 32
STEPS = int(os.environ.get("EPOCHS", "20")) * ROWS // BATCH


def rows_of(step: int) -> torch.Tensor:
    """Which rows a step sees follows from the step alone, so there is no data loader whose place could be lost."""
    epoch, batch = divmod(step, ROWS // BATCH)
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(epoch))
    return order[batch * BATCH : (batch + 1) * BATCH]


def save(step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Save all that the next step depends on. COMPLETE comes last: without it the checkpoint does not exist."""
    folder = CHECKPOINTS / f"step-{step:06d}"
    folder.mkdir()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}
    torch.save({"step": step, **state}, folder / "state.pt")  # on a GPU: torch.cuda.get_rng_state_all() as well
    (folder / "COMPLETE").touch()
    for old in sorted(CHECKPOINTS.iterdir())[:-2]:
        (old / "COMPLETE").unlink(missing_ok=True)  # first it stops to exist, then it goes
        shutil.rmtree(old)


def main() -> None:
    told_to_stop = []
    signal.signal(signal.SIGTERM, lambda *_: told_to_stop.append(True))
    x = torch.linspace(-3, 3, ROWS).unsqueeze(1)  # your rows come from $GPUJOB_DATA_DIR
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    step = 0
    if resume := os.environ.get("GPUJOB_RESUME_FROM"):
        state = torch.load(Path(resume) / "state.pt", weights_only=True)
        step = state["step"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])  # last: nothing after it may draw a random number but the steps

    saved_at = time.monotonic()
    with open(os.environ["GPUJOB_METRICS"], "a", buffering=1) as metrics:
        while step < STEPS:
            rows = rows_of(step)
            loss = nn.functional.mse_loss(model(x[rows]), torch.sin(x[rows]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            metrics.write(json.dumps({"step": step, "total_steps": STEPS, "loss": loss.item()}) + "\n")
            if told_to_stop or step == STEPS or time.monotonic() - saved_at >= INTERVAL:
                save(step, model, optimizer)
                saved_at = time.monotonic()
                if told_to_stop and step < STEPS:
                    sys.exit(143)

    OUTPUT.mkdir(exist_ok=True)
    torch.save(model.state_dict(), OUTPUT / "model.pt")


if __name__ == "__main__":
    main()
