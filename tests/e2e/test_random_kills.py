"""P1 to P3 in the open: twenty SIGKILLs at random moments, and the same bits as a run nobody disturbed."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import yaml
from safetensors.torch import load_file

from gpujob.core.job import Policy
from gpujob.core.layout import MANIFEST, HostPaths, JobKeys
from gpujob.core.records import Head
from support.desk import Desk, kill, until
from support.tiny import tiny_model_dir, tiny_rows

pytestmark = pytest.mark.real

STEPS = 300
VICTIMS = ("agent", "trainer", "supervisor", "everything", "upload", "prune")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a small real job: LoRA with dropout over a tiny model, a checkpoint every three steps."""
    folder = tmp_path_factory.mktemp("job")
    tiny_model_dir(folder / "model")
    (folder / "data").mkdir()
    tiny_rows(folder / "data", 640)
    spec = {
        "name": "kills",
        "train": {
            "model": "./model",
            "data": {"path": next((folder / "data").iterdir()).relative_to(folder).as_posix()},
            "lora": {"r": 4, "alpha": 8, "dropout": 0.1},
            "max_steps": STEPS,
            "per_device_train_batch_size": 4,
            "gradient_accumulation_steps": 8,  # steps of a twentieth of a second: few pass while a victim is found
            "max_length": 64,
        },
        "checkpoint": {"interval": "3 steps", "keep": 2},
        "recovery": {"max_failures": 1000, "max_without_progress": 1000},
        "limits": {"grace": "10s"},
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(spec))
    return folder / "job.yaml"


@contextmanager
def desk(folder: Path) -> Iterator[Desk]:
    """Give a desk and leave nothing of it running."""
    made = Desk(folder)
    try:
        yield made
    finally:
        made.close()


class Witness:
    """Look at head.json all the time; whatever it shows must follow from what it showed before."""

    def __init__(self, desk: Desk, job_id: str) -> None:
        self.desk, self.job_id = desk, job_id
        self.complaints: list[str] = []
        self.versions = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Witness:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        before: Head | None = None
        while not self._stop.wait(0.003):
            now = self.desk.head(self.job_id)
            if before is None or now.nonce != before.nonce:
                self.versions += 1
                self.complaints += complaints(before, now)
                before = now


def complaints(before: Head | None, now: Head) -> list[str]:
    """Say what in the step from one head to a later one must never happen."""
    steps = [ref.step for ref in now.checkpoints]
    found = [f"checkpoints out of order: {steps}"] if steps != sorted(set(steps), reverse=True) else []
    if any(ref.generation > now.generation for ref in now.checkpoints):
        found.append("a checkpoint of a generation that never was")
    if before is None:
        return found
    if now.generation < before.generation or now.attempt < before.attempt:
        found.append(f"generation or attempt went back: {before} -> {now}")
    if before.newest and (now.newest is None or now.newest.step < before.newest.step):
        found.append(f"the durable step went back: {before.newest} -> {now.newest}")
    if now.generation == before.generation and before.lease and now.lease and now.lease.holder != before.lease.holder:
        found.append(f"two writers in generation {now.generation}")
    if now.spent_seconds < before.spent_seconds:
        found.append("spent time was lost")
    return found


class Storm:
    """Kill something of a running job at a random moment, again and again."""

    def __init__(self, desk: Desk, job_id: str, rng: random.Random) -> None:
        self.desk, self.job_id, self.rng = desk, job_id, rng
        self.landed: dict[str, int] = dict.fromkeys(VICTIMS, 0)

    def over(self) -> bool:
        """Say whether the job ended."""
        return self.desk.head(self.job_id).outcome is not None

    def step(self) -> int:
        """Read the newest attempt's last step from its own metrics file, ahead of any heartbeat.

        Before it has one, the step it will go on from: an aim below that would kill it before its first own step, and
        attempts that bring nothing are started ever later.
        """
        head, host = self.desk.head(self.job_id), HostPaths(self.desk.home.rental(self.job_id))
        path = host.attempt(head.attempt).metrics
        lines = path.read_text().splitlines() if path.exists() else []
        steps = [json.loads(line).get("step", 0) for line in lines if line.endswith("}")]
        return max(steps, default=head.newest.step if head.newest else 0)

    def unfinished(self) -> list[str]:
        """List checkpoint folders in the store that have files and no manifest: being uploaded or deleted."""
        root = self.desk.store / JobKeys(self.job_id).checkpoints
        folders = list(root.iterdir()) if root.is_dir() else []
        return [folder.name for folder in folders if not (folder / MANIFEST).exists() and any(folder.rglob("*"))]

    def being_deleted(self) -> list[str]:
        """List those of them that are older than the newest durable step."""
        newest = self.desk.head(self.job_id).newest
        return [name for name in self.unfinished() if newest and int(name.split("-")[0]) < newest.step]

    def strike(self, victim: str) -> None:
        """Wait for the moment and kill."""
        aim = self.step() + self.rng.randint(2, 9)  # mostly past the next checkpoint
        until(lambda: self.step() >= min(aim, STEPS) or self.over(), f"step {aim}")
        if victim in ("upload", "prune"):
            # It may last a blink; one that is not caught within a few checkpoints becomes an agent's death.
            seen, last = (self.unfinished if victim == "upload" else self.being_deleted), self.step() + 15
            moment = until(lambda: seen() or self.over() or (self.step() >= last and "missed"), f"an {victim}")
            victim = "agent" if moment == "missed" else victim
        attempt = self.desk.head(self.job_id).attempt  # before the kill: the next may begin before anybody looks again
        victims = self._find(victim)
        for process in victims:
            kill(process)
        if not victims:
            return  # between two attempts
        self.landed[victim] += 1
        if victim in ("supervisor", "everything"):
            with self.frozen():
                self.desk.gpujob("ps")  # Whoever looks at the jobs brings the supervisor back.
        if victim != "supervisor":
            longest = Policy.model_fields["backoff_longest"].default + 120
            until(lambda: self.desk.head(self.job_id).attempt > attempt or self.over(), "the next attempt", longest)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let no step pass meanwhile: starting a supervisor takes as long as a hundred of these tiny steps."""
        children = self.desk.children(self.job_id)
        for child in children:
            child.suspend()
        try:
            yield
        finally:
            for child in children:
                with suppress(psutil.NoSuchProcess):
                    child.resume()

    def _find(self, victim: str) -> list[Any]:
        if victim in ("agent", "upload", "prune"):
            return self.desk.agents(self.job_id)
        if victim == "trainer":
            return self.desk.children(self.job_id)
        if victim == "supervisor":
            return self.desk.supervisors()
        return [*self.desk.supervisors(), *self.desk.processes(self.job_id)]


Weights = dict[str, torch.Tensor]
Log = list[dict[str, Any]]


def result(desk: Desk, job_id: str, folder: Path) -> tuple[Weights, Log]:
    """Pull a result; give its weights and its log without what a clock wrote."""
    desk.gpujob("pull", job_id, str(folder))
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    same = ("step", "loss", "grad_norm", "learning_rate", "tokens", "batch", "eval_loss")
    log = [{key: line[key] for key in same if key in line} for line in lines]
    return load_file(folder / "adapter" / "adapter_model.safetensors"), log


def test_killed_at_random_it_ends_with_the_same_bits(
    job: Path, tmp_path: Path, seed: int, request: pytest.FixtureRequest
) -> None:
    with desk(tmp_path / "calm") as calm:
        calm_id = calm.submit(job)
        calm.wait(calm_id)
        weights, log = result(calm, calm_id, tmp_path / "calm-result")
    rng, left, number = random.Random(seed), int(request.config.getoption("--kills")), 0
    while left > 0:  # mostly one job; luck may end it before its last kill
        number += 1
        stormy, stormy_log, landed = storm(job, tmp_path / f"storm-{number}", rng, left)
        left -= landed
        assert stormy.keys() == weights.keys()
        assert all(torch.equal(stormy[name], weights[name]) for name in weights)
        assert stormy_log == log
    assert [line["step"] for line in log if "loss" in line] == list(range(1, STEPS + 1))


def storm(job: Path, folder: Path, rng: random.Random, kills: int) -> tuple[Weights, Log, int]:
    """Run the job with so many kills; give what `result` gives, and how many there was time for."""
    with desk(folder) as one:
        job_id = one.submit(job)
        kill_it = Storm(one, job_id, rng)
        with Witness(one, job_id) as witness:
            while sum(kill_it.landed.values()) < kills and not kill_it.over():
                kill_it.strike(rng.choice(VICTIMS))
            ended = one.wait(job_id)
        print(f"kills that landed: {kill_it.landed}; attempts: {ended['attempt']}; heads seen: {witness.versions}")
        assert not witness.complaints
        assert ended["state"] == "SUCCEEDED"
        until(lambda: not one.processes(job_id), "no process left")
        return *result(one, job_id, folder / "result"), sum(kill_it.landed.values())
