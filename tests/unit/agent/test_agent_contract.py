"""What a program is given: environment and files, and nothing it must not see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import gpujob
from gpujob import bundle as bundles
from gpujob.agent import contract
from gpujob.core.layout import HostPaths
from gpujob.core.plan import Plan, make_plan
from gpujob.core.records import Bundle, FileEntry, Launch, TrainTask
from gpujob.core.spec import JobSpec
from support.rig import MakeRig

TRAIN = {"model": "org/model", "data": {"path": "train.jsonl"}}
MACHINE = {
    "PATH": "/bin",
    "CUDA_VISIBLE_DEVICES": "0",
    "PYTHONPATH": "/ours",
    "AWS_SECRET_ACCESS_KEY": "wJalr",
    "HF_TOKEN": "the machine's own",
    "GPUJOB_ID": "another",
}


def launch(root: Path, **more: Any) -> Launch:
    return Launch(job_id="j-1", attempt=3, store="s3://b", root=str(root), **more)


def plan(**fields: Any) -> Plan:
    spec = JobSpec.model_validate({"name": "j", **fields})
    return make_plan(spec, job_id="j-1", folder="/job", default_store="/s", now=0)


def test_a_programs_environment(tmp_path: Path) -> None:
    given = launch(tmp_path, secrets={"HF_TOKEN": "the job's"}, store_env={"AWS_SECRET_ACCESS_KEY": "wJalr"})
    job = plan(run="x", env={"MINE": "1", "PATH": "/mine:/bin"}, secrets=["HF_TOKEN"], checkpoint={"interval": "10m"})
    paths = HostPaths(tmp_path).attempt(3)
    resume = paths.resume / "checkpoint-12"
    assert contract.environ(given, job, MACHINE, resume) == {
        "PATH": "/mine:/bin",
        "CUDA_VISIBLE_DEVICES": "0",
        "PYTHONUNBUFFERED": "1",
        "MINE": "1",
        "HF_TOKEN": "the job's",
        "GPUJOB_ID": "j-1",
        "GPUJOB_ATTEMPT": "3",
        "GPUJOB_CHECKPOINT_DIR": str(paths.checkpoints),
        "GPUJOB_CHECKPOINT_INTERVAL": "600",
        "GPUJOB_RESUME_FROM": str(resume),
        "GPUJOB_DATA_DIR": str(tmp_path / "parts" / "data"),
        "GPUJOB_OUTPUT_DIR": str(paths.output),
        "GPUJOB_METRICS": str(paths.metrics),
        "GPUJOB_VERDICT": str(paths.verdict),
    }


@pytest.mark.parametrize("interval", ["auto", "50 steps"])
def test_an_interval_that_is_no_duration_is_the_programs_choice(tmp_path: Path, interval: str) -> None:
    job = plan(train=TRAIN, checkpoint={"interval": interval})
    environ = contract.environ(launch(tmp_path), job, {}, None)
    assert (environ["GPUJOB_CHECKPOINT_INTERVAL"], environ["GPUJOB_RESUME_FROM"]) == ("", "")


def test_only_the_trainer_finds_our_package_first(tmp_path: Path) -> None:
    ours = str(Path(gpujob.__file__).parent.parent)
    environ = contract.environ(launch(tmp_path), plan(train=TRAIN, env={"PYTHONPATH": "/theirs"}), MACHINE, None)
    assert environ["PYTHONPATH"] == f"{ours}:/theirs"
    assert environ["GPUJOB_TRAIN"] == str(HostPaths(tmp_path).attempt(3).train)
    assert contract.command(plan(train=TRAIN), "python3") == ["python3", "-m", "gpujob.trainer"]
    assert contract.command(plan(run="a && b"), "python3") == ["bash", "-c", "a && b"]


def entry(path: str) -> FileEntry:
    return FileEntry(path=path, size=1, blake3=path.encode().hex().ljust(64, "0"))


@pytest.mark.parametrize("local", [False, True])
def test_the_trainers_task(tmp_path: Path, local: bool) -> None:
    host, job = HostPaths(tmp_path), plan(train=TRAIN, checkpoint={"interval": "5 steps"})
    parts = {"data": (entry("train.jsonl"),)}
    if local:
        parts |= {"validation": (entry("valid.jsonl"),), "model": (entry("config.json"), entry("model.safetensors"))}
    bundle = Bundle(parts=parts)
    assert job.spec.train is not None
    contract.write_task(tmp_path / "task", job, job.spec.train, bundle, host)
    task = TrainTask.decode((tmp_path / "task").read_bytes())
    assert task == TrainTask(
        train=job.spec.train,
        data=str(host.part("data") / "train.jsonl"),
        validation=str(host.part("validation") / "valid.jsonl") if local else None,
        model=str(host.part("model")) if local else "org/model",
        inputs_digest=bundles.inputs_digest(bundle),
        interval=job.spec.checkpoint.interval,
    )


def test_what_a_real_program_sees(make_rig: MakeRig, tmp_path: Path) -> None:
    job = make_rig("print(json.dumps([dict(ENV), os.getcwd(), sorted(os.listdir())]))", secrets=["TOKEN"])
    data = tmp_path / "data"
    data.mkdir()
    (data / "rows").write_text("1")
    job.run(secrets={"TOKEN": "planted"}, store_env={"AWS_SECRET_ACCESS_KEY": "wJalr"})
    environ, cwd, there = json.loads(job.stream("log"))
    paths = job.host.attempt(1)
    assert (cwd, there) == (str(paths.work), ["job.py"])
    assert (environ["TOKEN"], environ["GPUJOB_CHECKPOINT_DIR"]) == ("***", str(paths.checkpoints))
    for name in ("NOT_TO_BE_SEEN", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH"):
        assert name not in environ
