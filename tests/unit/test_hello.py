"""jobs/hello/count.sh by the contract alone: environment and files, no agent."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "jobs" / "hello" / "count.sh"


def start(
    folder: Path, count: int, resume: str = "", step_seconds: str = "0.02", interval: str = "0"
) -> subprocess.Popen[str]:
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir(parents=True)
    environ = {
        "PATH": os.environ["PATH"],
        "COUNT": str(count),
        "STEP_SECONDS": step_seconds,
        "GPUJOB_CHECKPOINT_DIR": str(checkpoints),
        "GPUJOB_CHECKPOINT_INTERVAL": interval,
        "GPUJOB_RESUME_FROM": resume,
        "GPUJOB_METRICS": str(folder / "metrics.jsonl"),
        "GPUJOB_OUTPUT_DIR": str(folder / "output"),
    }
    return subprocess.Popen(
        ["bash", str(SCRIPT)], env=environ, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return output


def wait_for_line(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout
    for found in process.stdout:
        if found.strip() == line:
            return
    pytest.fail(f"the script ended without saying {line!r}")


def steps(folder: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def newest(folder: Path) -> Path:
    done = [each for each in (folder / "checkpoints").iterdir() if (each / "COMPLETE").exists()]
    return max(done, key=lambda each: int(each.name.rpartition("-")[2]))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_interrupted_is_uninterrupted(tmp_path: Path, how: signal.Signals) -> None:
    whole, first, second = (tmp_path / name for name in ("whole", "first", "second"))
    finish(start(whole, 12))

    process = start(first, 12)
    wait_for_line(process, "saved step 4")
    os.killpg(process.pid, how)
    process.communicate(timeout=60)
    assert process.returncode == (143 if how is signal.SIGTERM else -9)
    assert not (first / "output").exists()

    resumed = newest(first)
    step = int(resumed.name.rpartition("-")[2])
    assert 4 <= step < 12
    assert f"going on from step {step}\n" in finish(start(second, 12, resume=str(resumed)))
    assert steps(second) == list(range(step + 1, 13))
    result = "output/count.txt"
    assert (second / result).read_bytes() == (whole / result).read_bytes()


def test_sigterm_saves_what_the_interval_had_not(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "metrics.jsonl")
    # The script says nothing until it saves; a pipe for its metrics lets us wait for the first step.
    with os.fdopen(os.open(tmp_path / "metrics.jsonl", os.O_RDWR)) as metrics:
        process = start(tmp_path, 100_000, interval="3600.0")
        lines = [metrics.readline()]
        process.terminate()
        process.communicate(timeout=60)
        os.set_blocking(metrics.fileno(), False)
        lines += metrics.readlines()
    assert process.returncode == 143
    assert int(newest(tmp_path).name.rpartition("-")[2]) == json.loads(lines[-1])["step"]


def test_a_checkpoint_has_its_marker_last(tmp_path: Path) -> None:
    finish(start(tmp_path, 3))
    for folder in (tmp_path / "checkpoints").iterdir():
        assert (folder / "COMPLETE").stat().st_mtime_ns >= (folder / "state").stat().st_mtime_ns
        assert (folder / "state").read_text().split()[0] == folder.name.rpartition("-")[2]
