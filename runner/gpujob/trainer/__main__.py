"""`python -m gpujob.trainer`: read the contract, prepare the environment, train."""

from __future__ import annotations

import os
import sys

# What the agent imports, where the machine itself lacks it. Last, so that it stands before nothing of the machine's.
sys.path.extend(filter(None, os.environ.get("GPUJOB_KIT", "").split(os.pathsep)))

from gpujob.trainer.contract import read_contract

_BEFORE_TORCH = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # without it cuBLAS is not deterministic
    "CUDA_VISIBLE_DEVICES": "0",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "true",
}


def main() -> int:
    """Run one attempt; give the exit code."""
    contract = read_contract(os.environ)
    for name, value in _BEFORE_TORCH.items():
        os.environ.setdefault(name, value)
    from gpujob.trainer.run import run

    return run(contract, say)


def say(text: str) -> None:
    """Tell the job's log one line, now."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
