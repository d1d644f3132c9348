"""JobSpec -> Plan: everything decided, nothing done. `submit --dry-run` prints it; the store keeps it as job.json."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import PurePath
from random import Random
from typing import Any

from gpujob.core.errors import CheckError, UsageError
from gpujob.core.layout import CODE, DATA, IMAGE, MODEL, VALIDATION
from gpujob.core.records import Record
from gpujob.core.spec import Adapter, BuildImage, Host, JobSpec, Method
from gpujob.core.texts import check_name
from gpujob.core.units import show_duration

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[\w.-]+)?")
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"


class Plan(Record):
    """One job, decided. Immutable from the moment it lies in the store.

    `command` is the shell command of `run`, or None for the built-in trainer. `local_parts` maps a bundle part
    (`code`, `data`, `validation`, `model`) to the client's absolute path it is packed from. `notes` are the decisions
    a person should know of.
    """

    job_id: str
    name: str
    spec: JobSpec
    store: str
    hosts: tuple[Host, ...]
    command: str | None
    created_at: float
    local_parts: dict[str, str]
    notes: tuple[str, ...] = ()

    @property
    def remote(self) -> bool:
        """Say whether it may run on another machine."""
        return any(host.ssh for host in self.hosts)

    @property
    def contained(self) -> bool:
        """Say whether its agents run in a container of their own."""
        return self.spec.image not in (None, "none")

    def summary(self) -> dict[str, Any]:
        """Give the plan as plain JSON values."""
        return self.model_dump(mode="json")


def make_plan(
    spec: JobSpec,
    *,
    job_id: str,
    folder: str | os.PathLike[str],
    default_store: str,
    now: float,
    name: str | None = None,
) -> Plan:
    """Decide everything about a job; `folder` is job.yaml's own, absolute, and `name` overrides the spec's.

    Raises CheckError for what this version cannot do yet, UsageError for a name that cannot be one.
    """
    name = _name(name or spec.name)
    if cannot := [*_cannot_yet(spec)]:
        raise CheckError("plan the job", name, "; ".join(cannot), "this version of gpujob cannot do that yet")
    return Plan(
        job_id=job_id,
        name=name,
        spec=spec.model_copy(update={"name": name}),
        store=_store(spec.store, folder) if spec.store else default_store,
        hosts=spec.hosts,
        command=spec.run,
        created_at=now,
        local_parts={part: _absolute(folder, path) for part, path in _parts(spec)},
        notes=tuple(_notes(spec)),
    )


def new_job_id(name: str, random: Random) -> str:
    """Give a fresh id: the name and six random characters (30 bits)."""
    return f"{name}-{''.join(random.choices(_LETTERS, k=6))}"


def is_local_model(model: str) -> bool:
    """Say whether a model's name is a path (./x, ../x, /x, a/b/c) and not a hub id (x or owner/x)."""
    return "://" not in model and not _HUB_ID.fullmatch(model)


def _name(name: str) -> str:
    try:
        return check_name(name)
    except ValueError as error:
        raise UsageError("name a job", repr(name), str(error)) from None


def _cannot_yet(spec: JobSpec) -> Iterator[str]:
    for host in spec.hosts:
        if host.ssh:
            yield f"hosts: {host.ssh} is another machine, and jobs run on this one only"
    if spec.image not in (None, "none"):
        yield "image: jobs run without a container (image: none)"
    if spec.on_finish:
        yield "on_finish: nothing is run on a machine after a job"
    data = spec.train.data.path if spec.train else spec.data
    if data and "://" in data:
        yield "data cannot be read from a URL (a local file can)"
    if spec.train is None:
        return
    if spec.train.method is not Method.SFT:
        yield f"train.method: {spec.train.method.value} is not built in (sft is)"
    if spec.train.adapter is Adapter.QLORA:
        yield "train.adapter: qlora is not built in (lora and none are)"
    if "://" in spec.train.model:
        yield "train.model: a model cannot be read from a URL (a local folder and a hub id can)"


def _store(store: str, folder: str | os.PathLike[str]) -> str:
    return store.rstrip("/") if "://" in store else _absolute(folder, store)


def _absolute(folder: str | os.PathLike[str], path: str) -> str:
    return os.path.normpath(PurePath(folder) / path)


def _parts(spec: JobSpec) -> Iterator[tuple[str, str]]:
    if spec.run or spec.workdir:
        yield CODE, spec.workdir or "."
    if isinstance(spec.image, BuildImage):
        yield IMAGE, spec.image.build
    if spec.data:
        yield DATA, spec.data
    if spec.train:
        yield DATA, spec.train.data.path
        if isinstance(spec.train.data.validation, str):
            yield VALIDATION, spec.train.data.validation
        if is_local_model(spec.train.model):
            yield MODEL, spec.train.model


def _notes(spec: JobSpec) -> Iterator[str]:
    train, limits = spec.train, spec.limits
    if train and train.batch:
        micro, passes = train.per_device_train_batch_size, train.gradient_accumulation_steps
        yield f"batch: auto means {micro} x {passes} here ({micro * passes} rows in one optimizer step)"
    unpriced = any(host.price_per_hour == 0 for host in spec.hosts)
    if limits.cost is not None and unpriced:
        yield "limits.cost: a host has no price_per_hour: its cost cannot be limited"
    if limits.duration is None and (limits.cost is None or unpriced):
        yield "no limits.duration: nothing bounds the paid time"
    dearest = max(host.price_per_hour for host in spec.hosts)
    if limits.duration and dearest:
        most = dearest * limits.duration / 3600
        yield f"{show_duration(limits.duration)} on the dearest host cost {most:.2f}"
