"""What gpujob costs beside the plain tools, measured in one run: `make bench`, or `run.py startup bundle …` for a part.

Every comparison alternates between the two sides and prints medians, since a shared machine drifts.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from support.desk import Desk  # noqa: E402
from support.tiny import tiny_rows, tiny_tokenizer  # noqa: E402

ROUNDS = 5
STEPS = 60
SAVE_STEPS = 10
SKIPPED = 5
"""The first steps warm caches up and are left out."""

console = Console(highlight=False)


def seconds(work: Callable[[], object]) -> float:
    """Time one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def alternating(*sides: Callable[[], float], rounds: int = ROUNDS) -> list[list[float]]:
    """Measure the sides in turn, A B A B …; give each side's values."""
    values: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for side, found in zip(sides, values, strict=True):
            found.append(side())
    return values


def show(title: str, columns: tuple[str, ...], *rows: tuple[str, ...]) -> None:
    """Print one table."""
    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def spread(values: list[float], unit: float = 1.0, form: str = ".3f") -> str:
    """Write a median with its range."""
    low, middle, high = min(values) * unit, statistics.median(values) * unit, max(values) * unit
    return f"{middle:{form}} ({low:{form}}-{high:{form}})"


def bench_startup(folder: Path) -> None:
    """Time `gpujob --help` beside a bare interpreter."""
    bare, cli = alternating(
        lambda: seconds(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)),
        lambda: seconds(
            lambda: subprocess.run([sys.executable, "-m", "gpujob.cli.main", "--help"], stdout=-3, check=True)
        ),
    )
    show(
        "CLI start-up, ms",
        ("command", "median (range)"),
        ("python -c pass", spread(bare, 1000, ".0f")),
        ("gpujob --help", spread(cli, 1000, ".0f")),
    )


def bench_bundle(folder: Path) -> None:
    """Count what a second submit moves when one file of a project changed."""
    from gpujob import bundle
    from gpujob.store.open import open_store

    project = folder / "project"
    for number in range(1000):
        path = project / f"part{number % 20}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(20_000))
    store = open_store(str(folder / "bundles"))
    rows = []
    for number, what in enumerate(("first submit", "nothing changed", "one file changed")):
        if number == 2:
            (project / "part3" / "file3.py").write_bytes(os.urandom(20_000))
        began = time.perf_counter()
        shipped = bundle.ship(store, f"job-{number}", bundle.pack({"code": project}))
        took = time.perf_counter() - began
        rows.append(
            (
                what,
                f"{shipped.sent_files} of {shipped.total_files}",
                f"{shipped.sent_bytes:,} of {shipped.total_bytes:,}",
                f"{took:.2f}",
            )
        )
    show("Bundle: 1,000 files of 20 kB", ("submit", "files sent", "bytes sent", "seconds"), *rows)


def bench_restore(folder: Path) -> None:
    """Time a verified restore beside a plain copy of the same bytes."""
    from gpujob.checkpoints import head, lease, publish, restore
    from gpujob.store.open import open_store

    checkpoint = folder / "checkpoint-10"
    checkpoint.mkdir()
    for name, size in (("adapter_model.safetensors", 160), ("optimizer.pt", 320)):
        with (checkpoint / name).open("wb") as file:
            for _ in range(size):
                file.write(os.urandom(1_000_000))
    store = open_store(str(folder / "checkpoints"))
    head.create(store, "bench")
    held = lease.acquire(store, "bench", 1, "bench", 0)
    published = seconds(lambda: publish.publish(held, checkpoint, 10, 0, 3))

    def fresh(work: Callable[[Path], object]) -> float:
        target = folder / "target"
        took = seconds(lambda: work(target))
        shutil.rmtree(target)
        return took

    copied, restored = alternating(
        lambda: fresh(lambda target: shutil.copytree(checkpoint, target)),
        lambda: fresh(lambda target: restore.restore(store, "bench", target)),
    )
    show(
        "Checkpoint of 480 MB, folder store, seconds",
        ("what", "median (range)"),
        ("cp (not verified, not synced)", spread(copied)),
        ("restore, every byte verified", spread(restored)),
        ("publish (once)", f"{published:.3f}"),
    )


def bench_training(folder: Path) -> None:
    """Train the same with gpujob (agent, sync, beats and all) and with TRL alone; compare steps and saves."""
    job = _training_job(folder)
    spec = yaml.safe_load((job / "job.yaml").read_text())["train"]
    task = {**spec, "model": str(job / "model"), "data": str(job / "data" / "train.jsonl"), "save_steps": SAVE_STEPS}
    (folder / "task.json").write_text(json.dumps(task))
    number = iter(range(1000))

    def plain() -> list[float]:
        out = folder / f"plain-{next(number)}"
        argv = [sys.executable, str(HERE / "plain_trl.py"), str(folder / "task.json"), str(out)]
        environ = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
        subprocess.run(argv, check=True, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return [float(at) for at in json.loads((out / "clock.json").read_text())]

    def ours() -> list[float]:
        desk = Desk(folder / f"desk-{next(number)}", poll=1.0, beat=5.0)
        try:
            job_id = desk.submit(job / "job.yaml")
            desk.wait(job_id)
            desk.gpujob("pull", job_id, str(folder / job_id))
            lines = (folder / job_id / "metrics.jsonl").read_text().splitlines()
            return [line["at"] for line in map(json.loads, lines) if "loss" in line]
        finally:
            desk.close()

    measured: dict[str, list[tuple[float, float]]] = {"TRL alone": [], "gpujob": []}
    for _ in range(3):
        for name, run in (("TRL alone", plain), ("gpujob", ours)):
            measured[name].append(_step_and_stall(run()))
    rows = []
    for name, pairs in measured.items():
        steps, stalls = [list(values) for values in zip(*pairs, strict=True)]
        rows.append((name, spread(steps, 1000, ".1f"), spread(stalls, 1000, ".1f")))
    base, mine = (statistics.median(step for step, _ in measured[name]) for name in measured)
    show(
        f"Training, 3 runs in turn; a step of gpujob: {mine / base - 1:+.1%}",
        ("trainer", "ms per step", "ms standing still per save"),
        *rows,
    )


def _step_and_stall(at: list[float]) -> tuple[float, float]:
    """Give the median time from step to step, and how much longer a save makes it."""
    gaps = {step: later - earlier for step, (earlier, later) in enumerate(pairwise(at), 1)}
    plain = statistics.median(gap for step, gap in gaps.items() if step % SAVE_STEPS and step > SKIPPED)
    saves = [gap for step, gap in gaps.items() if step % SAVE_STEPS == 0]
    return plain, statistics.median(saves) - plain


def _training_job(folder: Path) -> Path:
    """Write a job over a model of 20 million parameters: steps of some tenths of a second, saves of some 50 MB."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    job = folder / "job"
    config = LlamaConfig(
        vocab_size=384,
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=256,
    )
    torch.manual_seed(7)
    LlamaForCausalLM(config).save_pretrained(job / "model")
    tiny_tokenizer(job / "model")
    tiny_rows(job / "data", 200)
    spec = {
        "name": "bench",
        "train": {
            "model": "./model",
            "data": {"path": "data/train.jsonl"},
            "lora": {"r": 64, "alpha": 64},
            "max_steps": STEPS,
            "per_device_train_batch_size": 2,
            "gradient_accumulation_steps": 2,
            "learning_rate": 2e-4,
            "max_length": 128,
            "dtype": "float32",
        },
        "checkpoint": {"interval": f"{SAVE_STEPS} steps", "keep": 2},
    }
    (job / "job.yaml").write_text(yaml.safe_dump(spec))
    return job


PARTS = {"startup": bench_startup, "bundle": bench_bundle, "restore": bench_restore, "training": bench_training}


def main(names: list[str]) -> None:
    """Run the parts that are named, or all."""
    for name in names or list(PARTS):
        with tempfile.TemporaryDirectory(prefix="gpujob-bench-") as folder:
            PARTS[name](Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
