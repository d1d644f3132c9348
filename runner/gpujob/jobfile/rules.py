"""What no single field can know: settings that contradict each other, and secrets in the open."""

from __future__ import annotations

from collections.abc import Iterator

from gpujob.core.errors import Problem
from gpujob.core.spec import Adapter, JobSpec, Steps
from gpujob.jobfile.secret import has_credentials, looks_secret
from gpujob.jobfile.tree import Mapping, Path, dotted, find, key_mark, scalars

_BATCH = ("per_device_train_batch_size", "gradient_accumulation_steps")


def conflicts(spec: JobSpec, tree: Mapping) -> Iterator[Problem]:
    """Give the settings that contradict each other; `tree` tells what was written and what is a default."""
    for path, message, hint in (*_program(spec, tree), *_train(spec, tree), *_places(spec), *_environment(spec)):
        yield key_mark(tree, path).problem(dotted(path), message, hint)


def secrets_in_the_open(tree: Mapping) -> Iterator[Problem]:
    """Give the values that look like a key or a password; job.yaml is kept with the job, readable to its host."""
    for path, scalar in scalars(tree):
        name = str(path[-1]) if path[0] == "env" else ""
        # A notify URL holds its token by design.
        if path[0] != "notify" and looks_secret(scalar.text, name):
            message = "looks like a secret, and job.yaml is kept with the job in plain sight"
            yield scalar.mark.problem(dotted(path), message, _where_instead(path, scalar.text))


def _where_instead(path: Path, text: str) -> str:
    if path[0] == "store" or has_credentials(text):
        return "leave the password out; credentials come from the environment"
    if path[0] == "secrets":
        return "list the variable's name, not its value"
    name = path[1] if path[0] == "env" and len(path) > 1 else "NAME"
    return f"export it and write `secrets: [{name}]`"


_Found = Iterator[tuple[Path, str, str]]


def _program(spec: JobSpec, tree: Mapping) -> _Found:
    if spec.train:
        for key in ("setup", "data"):
            if find(tree, (key,)) and getattr(spec, key) is not None:
                yield (key,), "belongs to `run:`, and this job has `train:`", "the trainer's rows are train.data"
    elif isinstance(spec.checkpoint.interval, Steps):
        message = "counts steps, which only the built-in trainer knows; with `run:` it must be a duration or `auto`"
        yield ("checkpoint", "interval"), message, "your program reads it from $GPUJOB_CHECKPOINT_INTERVAL"


def _train(spec: JobSpec, tree: Mapping) -> _Found:
    train = spec.train
    if train is None:
        return
    if train.adapter is Adapter.NONE and find(tree, ("train", "lora")):
        yield ("train", "lora"), "has no effect with `adapter: none`", "remove one of the two"
    for key in _BATCH:
        if train.batch and find(tree, ("train", key)):
            yield ("train", key), "is chosen by gpujob with `batch: auto`", "remove one of the two"
    if train.eval_steps and train.data.validation is None:
        yield ("train", "eval_steps"), "has no rows to evaluate on", "give data.validation, such as 5%"


def _places(spec: JobSpec) -> _Found:
    ssh = [index for index, host in enumerate(spec.hosts) if host.ssh]
    if ssh and spec.store is None:
        message = "another machine needs a `store:` that both it and this one reach, and none is given"
        yield ("hosts", ssh[0], "ssh"), message, "such as s3://my-bucket/gpujob"
    elif ssh and spec.store and ("://" not in spec.store or spec.store.startswith("file://")):
        message = f"is a folder of this machine, which {spec.hosts[ssh[0]].ssh} cannot reach"
        yield ("store",), message, "such as s3://my-bucket/gpujob"


def _environment(spec: JobSpec) -> _Found:
    for index, name in enumerate(spec.secrets):
        if name in spec.env:
            yield ("secrets", index), f"{name} is in `env:` as well", "remove it there"
