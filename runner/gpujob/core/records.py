"""What machines tell each other: versioned JSON, tolerant of fields a newer version adds.

Times are seconds since the epoch (UTC), durations seconds, sizes bytes, money the currency of the spec's
`price_per_hour`. Digests are blake3, hex.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field

from gpujob.core.reasons import Reason
from gpujob.core.spec import Interval, Train

R = TypeVar("R", bound="Record")


class Record(BaseModel):
    """A frozen, versioned JSON document."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    version: int = 1

    def encode(self) -> bytes:
        """Give the record as indented UTF-8 JSON, the one form it has on disk and in the store."""
        return self.model_dump_json(indent=1).encode() + b"\n"

    @classmethod
    def decode(cls: type[R], data: bytes) -> R:
        """Read a record; raises pydantic.ValidationError when the bytes are not one."""
        return cls.model_validate_json(data)


class FileEntry(Record):
    """One file of a checkpoint, a bundle part or a result. `path` is relative, with `/`."""

    path: str
    size: int = Field(ge=0)
    blake3: str
    executable: bool = False


class Manifest(Record):
    """The proof that a checkpoint (or a result) is whole: written last, listing every file."""

    job_id: str
    step: int
    generation: int
    attempt: int
    created_at: float
    files: tuple[FileEntry, ...]

    @property
    def bytes(self) -> int:
        """The total size of the files."""
        return sum(file.size for file in self.files)


class CheckpointRef(Record):
    """A committed checkpoint as the head knows it. `digest` is the blake3 of the manifest's bytes."""

    step: int
    generation: int
    digest: str
    bytes: int
    committed_at: float


class Intent(str, Enum):
    """What a person wants of the job; the agent reads it with every beat."""

    RUN = "run"
    STOP = "stop"
    CANCEL = "cancel"


class Lease(Record):
    """Who may move the job forward."""

    holder: str
    attempt: int
    acquired_at: float


class Head(Record):
    """The job's only mutable object, moved by compare-and-swap alone.

    `nonce` differs in every version, so that no two versions are ever byte-equal (ETags are content hashes in
    many stores). `checkpoints` are the committed ones that are kept, newest first. `spent_*` cover the attempts
    that have ended; the running one's share is in its beat. `outcome` is set once, when the job is over. `driver` is
    the client that may start attempts; none named, any may.
    """

    job_id: str
    nonce: str
    generation: int = 0
    attempt: int = 0
    intent: Intent = Intent.RUN
    driver: str | None = None
    lease: Lease | None = None
    checkpoints: tuple[CheckpointRef, ...] = ()
    result: CheckpointRef | None = None
    spent_seconds: float = 0.0
    spent_cost: float = 0.0
    outcome: Reason | None = None

    @property
    def newest(self) -> CheckpointRef | None:
        """The newest committed checkpoint."""
        return self.checkpoints[0] if self.checkpoints else None


class Phase(str, Enum):
    """What an attempt is doing."""

    RESTORING = "restoring"
    SETUP = "setup"
    TRAINING = "training"
    FINISHING = "finishing"


class Heartbeat(Record):
    """One sign of life of one attempt (attempts/<n>/beat.json), overwritten every few seconds.

    `durable_at` is when the newest durable checkpoint was *made* (its training time), not when its upload ended:
    what would be lost now is the work since then. `elapsed` and `cost` are this attempt's alone.
    """

    attempt: int
    generation: int
    holder: str
    at: float
    phase: Phase
    elapsed: float
    cost: float = 0.0
    resumed_step: int = 0
    step: int = 0
    total_steps: int | None = None
    loss: float | None = None
    durable_step: int = 0
    durable_at: float | None = None


class ExitReport(Record):
    """How one attempt ended (attempts/<n>/exit.json). Every ending leaves one while the store can be reached.

    `sentence` is plain and complete; `evidence` the last lines of the log, or what else proves it.
    """

    attempt: int
    generation: int
    at: float
    reason: Reason
    sentence: str
    exit_code: int | None = None
    signal: int | None = None
    step: int = 0
    durable_step: int = 0
    elapsed: float = 0.0
    cost: float = 0.0
    evidence: tuple[str, ...] = ()


class Verdict(Record):
    """What a child may leave in $GPUJOB_VERDICT to say why it ended; our trainer always does when it knows."""

    reason: Reason
    sentence: str


class TrainTask(Record):
    """What the agent hands the built-in trainer in $GPUJOB_TRAIN.

    `data`, `validation` and `model` are paths on this machine (`model` may be a hub id). `inputs_digest` is the
    blake3 of the data, validation and model entries of the bundle; with `train` it decides whether a checkpoint
    may be resumed.
    """

    train: Train
    data: str
    validation: str | None = None
    model: str
    inputs_digest: str
    interval: Interval = "auto"


class Event(Record):
    """Something worth telling a person, from agent or client."""

    at: float
    attempt: int
    kind: str
    text: str


class Bundle(Record):
    """What travels: the files of each part, all of them content-addressed blobs.

    Parts are `app` (gpujob itself), `code` (the workdir), `data`, `validation` and `model` (local ones only), and
    `image` (the folder of a Dockerfile).
    A part that is one file has one entry.
    """

    parts: dict[str, tuple[FileEntry, ...]]


class Launch(Record):
    """What the client hands an agent on its standard input; secrets travel this way and no other.

    `root` is the job's folder on that machine (layout.HostPaths). `driver` is the client that starts it. `secrets` go
    into the child's environment, `store_env` is for the agent alone. On a `rented` machine, what training needs is
    installed by the agent when it is missing.
    """

    job_id: str
    attempt: int
    store: str
    root: str
    price_per_hour: float = 0.0
    beat_seconds: float = 5.0
    driver: str | None = None
    rented: bool = False
    secrets: dict[str, str] = Field(default_factory=dict, repr=False)
    store_env: dict[str, str] = Field(default_factory=dict, repr=False)


class Placement(Record):
    """Where an attempt was started (attempts/<n>/placement.json), for a client that has to find the machine.

    `host` is the index in the plan's hosts; `ref`, `root` and `price_per_hour` are those of the rental.
    """

    attempt: int
    driver: str
    host: int
    ref: str
    root: str
    price_per_hour: float = 0.0
    at: float
