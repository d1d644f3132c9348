"""job.yaml as frozen models. Reading a file, with line and column of every mistake, is `gpujob.jobfile`."""

from __future__ import annotations

import re
from enum import Enum
from typing import Annotated, Any, Literal, Union

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    model_validator,
)

from gpujob.core.units import Money, Seconds, parse_duration, parse_percent

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,46}[a-z0-9])?")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STEPS = re.compile(r"(\d+)\s*steps?")


def _check_name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError("a name is 1 to 48 lower-case letters, digits and hyphens, with no hyphen at either end")
    return value


def _check_env_name(value: str) -> str:
    if not _ENV_NAME.fullmatch(value):
        raise ValueError("an environment variable's name is letters, digits and underscores")
    if value.startswith("GPUJOB_"):
        raise ValueError("names that start with GPUJOB_ are gpujob's own")
    return value


JobName = Annotated[str, AfterValidator(_check_name)]
EnvName = Annotated[str, AfterValidator(_check_env_name)]


class Part(BaseModel):
    """A part of the spec: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


class Host(Part):
    """One machine, or one way to get a machine."""

    ssh: str | None = None
    """An alias of ~/.ssh/config, or user@host:port. Left out: this machine."""
    price_per_hour: Money = 0.0
    """What an hour costs, in any currency; limits.cost is in the same."""


class Steps(Part):
    """A checkpoint interval counted in optimizer steps."""

    steps: PositiveInt


def _parse_interval(value: Any) -> Any:
    if value == "auto" or isinstance(value, (Steps, dict)):
        return value
    if isinstance(value, str) and (match := _STEPS.fullmatch(value.strip())):
        return Steps(steps=int(match[1]))
    try:
        return parse_duration(value)
    except ValueError:
        raise ValueError("an interval is auto, a duration such as 10m, or a count such as 50 steps") from None


Interval = Annotated[Union[Literal["auto"], float, Steps], BeforeValidator(_parse_interval)]


class Checkpoint(Part):
    """When to checkpoint and what to keep."""

    interval: Interval = "auto"
    """`auto` (Young/Daly from measured cost), a duration, or `N steps`."""
    keep: Annotated[int, Field(ge=2)] = 3
    """How many of the newest checkpoints stay in the store; never fewer than two."""


class Recovery(Part):
    """How much trouble a job may have before it is given up."""

    max_failures: Annotated[int, Field(ge=0)] = 3
    """Attempts that may end by the job's own fault (crash, OOM, stall, store)."""
    max_preemptions: Union[Annotated[int, Field(ge=0)], Literal["unlimited"]] = "unlimited"
    """Attempts that may end because the machine went away."""
    max_without_progress: PositiveInt = 3
    """Attempts in a row without a newer durable checkpoint before the job fails."""


class Limits(Part):
    """What the rental itself enforces, with the laptop off."""

    duration: Seconds | None = None
    """Paid time over all attempts."""
    cost: Money | None = None
    """Money over all attempts."""
    stall: Seconds = 900.0
    """Longest time without a new training step, once there was one."""
    startup: Seconds = 1200.0
    """Longest time from an attempt's start to its first new step."""
    grace: Seconds = 60.0
    """Between SIGTERM and SIGKILL."""


class Method(str, Enum):
    """How to train."""

    SFT = "sft"
    DPO = "dpo"
    PRETRAIN = "pretrain"


class Adapter(str, Enum):
    """What is trained: a low-rank adapter, one over a 4-bit base, or every weight."""

    LORA = "lora"
    QLORA = "qlora"
    NONE = "none"


class Lora(Part):
    """peft.LoraConfig by its own names (alpha and dropout without their prefix)."""

    r: PositiveInt = 16
    alpha: PositiveInt = 32
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    target_modules: Union[Literal["all-linear"], tuple[str, ...]] = "all-linear"


def _parse_validation(value: Any) -> Any:
    if isinstance(value, str) and not value.strip().endswith("%"):
        return value
    return parse_percent(value)


class Data(Part):
    """Rows to train on."""

    path: str
    """A file beside job.yaml (JSON lines: alpaca, prompt/completion or messages rows)."""
    validation: Annotated[
        Union[float, str, None], BeforeValidator(lambda v: v if v is None else _parse_validation(v))
    ] = None
    """A share of the rows to hold out (5%), or a file of their own."""


class Train(Part):
    """The built-in trainer; names are those of TRL and transformers."""

    method: Method = Method.SFT
    model: str
    """A local folder or a hub id."""
    data: Data
    adapter: Adapter = Adapter.LORA
    lora: Lora = Lora()
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 2e-4
    lr_scheduler_type: str = "cosine"
    warmup_steps: Annotated[float, Field(ge=0)] = 0.03
    """Steps, or below 1 a share of all steps."""
    num_train_epochs: Annotated[float, Field(gt=0)] = 3.0
    max_steps: PositiveInt | None = None
    """Optimizer steps; wins over num_train_epochs."""
    batch: Literal["auto"] | None = None
    """`auto`: gpujob chooses the micro-batch; left out, the two fields below say it."""
    per_device_train_batch_size: PositiveInt = 1
    gradient_accumulation_steps: PositiveInt = 8
    max_length: PositiveInt = 1024
    """Longest row in tokens; what is longer is cut."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    gradient_checkpointing: bool = False
    seed: Annotated[int, Field(ge=0)] = 42
    eval_steps: PositiveInt | None = None
    """Optimizer steps between evaluations; left out: at the end only."""
    prompts: tuple[str, ...] = ()
    """Asked before and after training; the replies go into result/summary.json."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Any further SFTConfig field, checked against the real class when the trainer starts."""


class BuildImage(Part):
    """An image built from a folder of this project."""

    build: str


class JobSpec(Part):
    """One job: what to run, where, for how much, and what must never be lost."""

    name: JobName
    hosts: tuple[Host, ...] = (Host(),)
    image: Union[BuildImage, str, None] = None
    """A tag to pull, {build: folder}, or `none` where the rental itself is the container."""
    workdir: str | None = None
    """The folder of code that travels; left out: job.yaml's own folder for `run`, nothing for `train`."""
    data: str | None = None
    """For `run`: a file or folder that travels beside the code, $GPUJOB_DATA_DIR."""
    setup: str | None = None
    """For `run`: a shell command before the first one of an attempt."""
    run: str | None = None
    """Any program, as a shell command."""
    train: Train | None = None
    """The built-in trainer."""
    store: str | None = None
    """Where checkpoints go: s3://…, gs://…, file://… or a folder. Left out: a folder of this machine."""
    checkpoint: Checkpoint = Checkpoint()
    recovery: Recovery = Recovery()
    limits: Limits = Limits()
    env: dict[EnvName, str] = Field(default_factory=dict)
    secrets: tuple[EnvName, ...] = ()
    """Names only; values come from the environment or --env-file when the job is submitted."""
    notify: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one_program(self) -> JobSpec:
        if (self.run is None) == (self.train is None):
            raise ValueError("a job has either `train:` (the built-in trainer) or `run:` (any program), and not both")
        return self
