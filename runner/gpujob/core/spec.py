"""job.yaml as frozen models. Reading a file, with line and column of every mistake, is `gpujob.jobfile`.

The docstring under a field is its description in docs/job-yaml.md and in messages about it.
"""

from __future__ import annotations

import math
import re
from enum import Enum
from typing import Annotated, Any, Literal, Union

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PositiveInt,
    model_validator,
)

from gpujob.core.texts import AbsolutePath, EnvName, File, Folder, HostKey, JobName, Shell, Text, Verbatim
from gpujob.core.units import A_SHARE, Allowed, Money, Seconds, parse_duration, parse_percent

_STEPS = re.compile(r"([0-9]{1,12})\s*steps?")


class Part(BaseModel):
    """A part of the spec: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class Host(Part):
    """One machine, or one way to get a machine."""

    ssh: Text | None = None
    """An alias of ~/.ssh/config, or user@host:port. Left out: this machine."""
    host_key: HostKey | None = None
    """The machine's key, as `ssh-keygen -lf` shows it (SHA256:…). Left out: the known_hosts files decide."""
    root: AbsolutePath | None = None
    """The folder on the machine everything lies in. Left out: .gpujob in the user's home there."""
    price_per_hour: Money = 0.0
    """What an hour costs, in any currency; limits.cost is in the same."""


class Steps(Part):
    """A checkpoint interval counted in optimizer steps."""

    steps: PositiveInt
    """How many."""


def _parse_interval(value: Any) -> Any:
    if value == "auto" or isinstance(value, (Steps, dict)):
        return value
    if isinstance(value, str) and (match := _STEPS.fullmatch(value.strip())) and int(match[1]):
        return Steps(steps=int(match[1]))
    try:
        return parse_duration(value)
    except ValueError:
        raise ValueError("an interval is auto, a duration such as 10m, or a count such as 50 steps") from None


Interval = Annotated[
    Union[Literal["auto"], float, Steps],
    BeforeValidator(_parse_interval),
    Allowed("`auto`, a duration such as 10m, or a count such as `50 steps`"),
]


class Checkpoint(Part):
    """When to checkpoint and what to keep."""

    interval: Interval = "auto"
    """`auto` (Young/Daly from measured cost), a duration, or `N steps` (the built-in trainer only)."""
    keep: Annotated[int, Field(ge=2)] = 3
    """How many of the newest checkpoints stay in the store; never fewer than two."""


class Recovery(Part):
    """How much trouble a job may have before it is given up."""

    max_failures: Annotated[int, Field(ge=0)] = 3
    """Attempts that may end by the job's own fault (crash, OOM, stall, store)."""
    max_preemptions: Annotated[
        Union[Annotated[int, Field(ge=0)], Literal["unlimited"]], Allowed("a whole number, 0 or more, or `unlimited`")
    ] = "unlimited"
    """Attempts that may end because the machine went away."""
    max_without_progress: PositiveInt = 3
    """Attempts in a row without a newer durable checkpoint before the job fails."""
    wait: Seconds = 86400.0
    """Longest time without any machine to be had before the job fails."""
    lost_after: Seconds = 900.0
    """A machine that does not answer counts as lost when its heartbeat in the store has been silent this long too."""
    idle: Seconds = 900.0
    """A machine whose attempt has ended, and on which nobody starts another for this long, runs `on_finish`."""


class Limits(Part):
    """What the rental itself enforces, with the laptop off."""

    duration: Seconds | None = None
    """Paid time over all attempts. Left out: no limit."""
    cost: Money | None = None
    """Money over all attempts, in the currency of the hosts' price_per_hour. Left out: no limit."""
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
    """The rank."""
    alpha: PositiveInt = 32
    """The scale; what is added is alpha / r times the adapter's product."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The share of the adapter's inputs that is dropped while training."""
    target_modules: Annotated[
        Union[Literal["all-linear"], Annotated[tuple[Text, ...], Field(min_length=1)]],
        Allowed("`all-linear` or a list such as [q_proj, v_proj]"),
    ] = "all-linear"
    """Which layers get an adapter."""


def _parse_validation(value: Any) -> Any:
    if value is None or (isinstance(value, str) and value.strip() and not value.strip().endswith("%")):
        return value
    if isinstance(value, (bool, dict, list)):
        raise ValueError(f"must be {A_SHARE}, or a file")
    return parse_percent(value)


class Data(Part):
    """Rows to train on."""

    path: File
    """A file beside job.yaml (JSON lines: alpaca, prompt/completion or messages rows)."""
    validation: Annotated[
        Union[float, str, None], BeforeValidator(_parse_validation), Allowed(f"{A_SHARE}, or a file")
    ] = None
    """A share of the rows to hold out (5%), or a file of their own. Left out: no evaluation."""


def _check_args(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    def finite(each: JsonValue) -> bool:
        if isinstance(each, (dict, list)):
            return all(map(finite, each.values() if isinstance(each, dict) else each))
        return not isinstance(each, float) or math.isfinite(each)

    if not finite(value):
        raise ValueError("infinity and NaN cannot be kept in the job's record")
    return value


Scheduler = Literal[
    "linear", "cosine", "cosine_with_restarts", "polynomial", "constant", "constant_with_warmup", "inverse_sqrt"
]


class Train(Part):
    """The built-in trainer; names are those of TRL and transformers."""

    method: Method = Method.SFT
    """How to train."""
    model: Annotated[Text, Allowed("a local folder or a hub id")]
    """A local folder (./models/x or an absolute path) or a hub id (Qwen/Qwen2.5-1.5B-Instruct)."""
    data: Data
    """Rows to train on."""
    adapter: Adapter = Adapter.LORA
    """A low-rank adapter, one over a 4-bit base, or every weight (none)."""
    lora: Lora = Lora()
    """peft.LoraConfig by its own names (alpha and dropout without their prefix)."""
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 2e-4
    """The highest learning rate."""
    lr_scheduler_type: Scheduler = "cosine"
    """How the learning rate changes over the steps."""
    warmup_steps: Annotated[float, Field(ge=0)] = 0.03
    """Steps, or below 1 a share of all steps."""
    num_train_epochs: Annotated[float, Field(gt=0)] = 3.0
    """Times each row is seen."""
    max_steps: PositiveInt | None = None
    """Optimizer steps; wins over num_train_epochs."""
    batch: Literal["auto"] | None = None
    """`auto`: gpujob chooses the micro-batch; left out, the two fields below say it."""
    per_device_train_batch_size: PositiveInt = 1
    """Rows in one forward and backward pass."""
    gradient_accumulation_steps: PositiveInt = 8
    """Passes in one optimizer step."""
    max_length: PositiveInt = 1024
    """Longest row in tokens; what is longer is cut."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """AdamW's weight decay."""
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    """Gradients are scaled down to at most this norm."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """The weights' number type; `auto` is bfloat16 where the device has it."""
    gradient_checkpointing: bool = False
    """Less memory for about a third more time."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 42
    """Of the order of rows, the adapter's first weights and dropout."""
    eval_steps: PositiveInt | None = None
    """Optimizer steps between evaluations; left out: at the end only."""
    prompts: tuple[Verbatim, ...] = ()
    """Asked before and after training; the replies go into result/summary.json."""
    args: Annotated[dict[str, JsonValue], AfterValidator(_check_args)] = Field(default_factory=dict)
    """Any further SFTConfig field, checked against the real class when the trainer starts."""


A_HOST_LIST = "a list of machines, such as `[{ssh: gpu-box}]`"
A_NAME_LIST = "a list of names, such as `[HF_TOKEN]`"


class BuildImage(Part):
    """An image built from a folder of this project."""

    build: Folder
    """The folder with its Dockerfile."""
    args: dict[Text, Verbatim] = Field(default_factory=dict)
    """Build arguments; no secrets."""


class JobSpec(Part):
    """One job: what to run, where, for how much, and what must never be lost."""

    name: JobName
    """The job's id begins with it."""
    hosts: Annotated[tuple[Host, ...], Field(min_length=1), Allowed(A_HOST_LIST)] = (Host(),)
    """Where it may run, tried in order. Left out: this machine."""
    image: Annotated[Union[BuildImage, Text, None], Allowed("a tag, `{build: folder}` or `none`")] = None
    """A tag to pull, {build: folder}, or `none` where the rental itself is the container."""
    workdir: Folder | None = None
    """The folder of code that travels; left out: job.yaml's own folder for `run`, nothing for `train`."""
    data: Annotated[Text, Allowed("a file or folder")] | None = None
    """For `run`: a file or folder that travels beside the code, $GPUJOB_DATA_DIR."""
    setup: Shell | None = None
    """For `run`: a shell command before the first one of an attempt."""
    run: Shell | None = None
    """Any program, as a shell command."""
    train: Train | None = None
    """The built-in trainer."""
    store: Annotated[Text, Allowed("a URL or a folder")] | None = None
    """Where checkpoints go: s3://…, gs://…, file://… or a folder. Left out: a folder of this machine."""
    checkpoint: Checkpoint = Checkpoint()
    """When to checkpoint and what to keep."""
    recovery: Recovery = Recovery()
    """How much trouble a job may have before it is given up."""
    limits: Limits = Limits()
    """What the rental itself enforces, with the laptop off."""
    env: dict[EnvName, Verbatim] = Field(default_factory=dict)
    """Environment variables of the program; no secrets."""
    secrets: Annotated[tuple[EnvName, ...], Allowed(A_NAME_LIST)] = ()
    """Names only; values come from the environment or --env-file when the job is submitted."""
    on_finish: Annotated[tuple[Shell, ...], Allowed("a list of shell commands, such as `[sudo poweroff]`")] = ()
    """Run on the machine once it has nothing more to do for the job, however that ended: the owner's own shutdown."""
    notify: tuple[Text, ...] = ()
    """Where to send word when something happens, as Apprise URLs."""

    @model_validator(mode="after")
    def _one_program(self) -> JobSpec:
        if (self.run is None) == (self.train is None):
            raise ValueError("a job has either `train:` (the built-in trainer) or `run:` (any program), and not both")
        return self
