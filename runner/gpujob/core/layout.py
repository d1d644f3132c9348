"""Every key in the store and every path on a machine. Nobody else joins a path to a known name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_STEP = re.compile(r"(?:^|[^0-9])([0-9]{1,12})\Z")


@dataclass(frozen=True, slots=True)
class JobKeys:
    """The keys of one job in the store."""

    job_id: str

    @property
    def prefix(self) -> str:
        """Everything of the job lies under this."""
        return f"jobs/{self.job_id}/"

    @property
    def plan(self) -> str:
        """The immutable plan."""
        return f"{self.prefix}job.json"

    @property
    def head(self) -> str:
        """The one mutable object."""
        return f"{self.prefix}head.json"

    @property
    def bundle(self) -> str:
        """The list of what travels; the bytes are blobs."""
        return f"{self.prefix}bundle.json"

    @property
    def checkpoints(self) -> str:
        """The prefix of all checkpoints."""
        return f"{self.prefix}checkpoints/"

    def checkpoint(self, step: int, generation: int) -> str:
        """Give the prefix of one checkpoint; the generation keeps two attempts from ever sharing one."""
        return f"{self.checkpoints}{step:08d}-{generation:04d}/"

    def result(self, generation: int) -> str:
        """Give the prefix of the job's result as one generation uploads it."""
        return f"{self.prefix}result/{generation:04d}/"

    def attempt(self, attempt: int) -> AttemptKeys:
        """Give the keys of one attempt."""
        return AttemptKeys(f"{self.prefix}attempts/{attempt:04d}/")


@dataclass(frozen=True, slots=True)
class AttemptKeys:
    """The keys of one attempt in the store."""

    prefix: str

    @property
    def beat(self) -> str:
        """The heartbeat, overwritten."""
        return f"{self.prefix}beat.json"

    @property
    def exit(self) -> str:
        """The exit report."""
        return f"{self.prefix}exit.json"

    @property
    def placement(self) -> str:
        """Where the attempt was started, and by whom."""
        return f"{self.prefix}placement.json"

    def segments(self, stream: str) -> str:
        """Give the prefix of a stream's segments; streams are `log`, `metrics` and `events`."""
        return f"{self.prefix}{stream}/"

    def segment(self, stream: str, number: int) -> str:
        """Give the key of one append-only segment of a stream."""
        return f"{self.segments(stream)}{number:06d}"


APP, CODE, DATA, VALIDATION, MODEL, IMAGE = "app", "code", "data", "validation", "model", "image"
"""The parts of a bundle: gpujob itself, the workdir, what is trained on, and the folder of a Dockerfile.

Client and agent must agree on them."""

COMPLETE = "COMPLETE"
"""A child creates this (empty) file last in a checkpoint folder; trainer_state.json counts as well."""

MANIFEST = "manifest.json"
"""The name of a checkpoint's or result's manifest below its prefix."""

FILES = "files/"
"""The files of a checkpoint or result lie under this, so that no name of theirs can meet the manifest's."""


def step_in_name(name: str) -> int | None:
    """Give the step that a checkpoint folder's name ends in; None when it ends in none, or in more than 12 digits."""
    match = _STEP.search(name)
    return int(match[1]) if match else None


BLOBS = "blobs/"
"""Everything content-addressed lies under this."""


def blob(digest: str) -> str:
    """Give the key of a content-addressed blob, shared between jobs."""
    return f"{blobs(digest)}{digest}"


def blobs(digest: str) -> str:
    """Give the prefix shared by the blobs whose digests start alike."""
    return f"{BLOBS}{digest[:2]}/"


@dataclass(frozen=True, slots=True)
class HomePaths:
    """The client's folder ($GPUJOB_HOME, else the user's data folder)."""

    root: Path

    @property
    def journal(self) -> Path:
        """One file per job."""
        return self.root / "journal"

    def job(self, job_id: str) -> Path:
        """Give the journal file of one job."""
        return self.journal / f"{job_id}.json"

    def lock(self, job_id: str) -> Path:
        """Give the lock file of one job's journal entry."""
        return self.journal / f"{job_id}.lock"

    def submitting(self, job_id: str) -> Path:
        """Give the lock file that a submit holds until everything of the job lies in the store."""
        return self.journal / f"{job_id}.submit"

    @property
    def names(self) -> Path:
        """Locked while a submit looks whether its name is free."""
        return self.journal / "names.lock"

    def secrets(self, job_id: str) -> Path:
        """Give the file (mode 0600) with a job's secret values; gone when the job is over."""
        return self.root / "secrets" / f"{job_id}.json"

    @property
    def supervisor_lock(self) -> Path:
        """Held by the one supervisor; its content is the pid."""
        return self.root / "supervisor.lock"

    @property
    def supervisor_gate(self) -> Path:
        """Locked while a supervisor is started, and while one decides to end."""
        return self.root / "supervisor.gate"

    @property
    def supervisor_log(self) -> Path:
        """What the supervisor did and could not do."""
        return self.root / "supervisor.log"

    @property
    def client(self) -> Path:
        """This client's id, which it drives its jobs under."""
        return self.root / "client.json"

    @property
    def known_hosts(self) -> Path:
        """Host keys a person accepted, in OpenSSH's format, beside those of the user's own files."""
        return self.root / "known_hosts"

    @property
    def kits(self) -> Path:
        """What agents on other machines import, fetched once: a folder per digest."""
        return self.root / "kits"

    def part(self, digest: str) -> Path:
        """Give the folder of a part that was fetched from a store to be sent to a machine."""
        return self.root / "parts" / digest

    def outbox(self, job_id: str) -> Path:
        """Give the file that lists what of a job the store does not have yet, and where it lies on this computer."""
        return self.root / "outbox" / f"{job_id}.json"

    @property
    def hashes(self) -> Path:
        """Digests of big files that travelled before, so that they are not read again."""
        return self.root / "hashes.json"

    @property
    def bug_log(self) -> Path:
        """The traceback of the last error that nobody foresaw (mode 0600)."""
        return self.root / "bug.log"

    @property
    def store(self) -> Path:
        """The store of jobs that name none (local host only)."""
        return self.root / "store"

    @property
    def rentals(self) -> Path:
        """This machine's own folders as a host."""
        return self.root / "rentals"

    def rental(self, job_id: str) -> Path:
        """Give the folder that plays the rented disk for one job on this machine."""
        return self.rentals / job_id


@dataclass(frozen=True, slots=True)
class MachinePaths:
    """Everything of ours on another machine: .gpujob in the user's home there, or what the spec says."""

    root: Path

    def job(self, job_id: str) -> HostPaths:
        """Give one job's folder."""
        return HostPaths(self.root / "jobs" / job_id)

    @property
    def cache(self) -> Path:
        """Contents that were sent here, laid out like a store; shared by all jobs."""
        return self.root / "cache"

    def app(self, digest: str) -> Path:
        """Give the folder of one version of gpujob: a PYTHONPATH."""
        return self.root / "apps" / digest

    def kit(self, digest: str) -> Path:
        """Give the folder of what the agent imports: a PYTHONPATH."""
        return self.root / "kits" / digest

    def env(self, digest: str) -> Path:
        """Give a Python environment made here for training, by the digest of what it holds."""
        return self.root / "envs" / digest

    def watch(self, job_id: str) -> Path:
        """Give the watcher's folder; it outlives the job's."""
        return self.root / "watch" / job_id


@dataclass(frozen=True, slots=True)
class HostPaths:
    """One job's folder on the machine that runs it."""

    root: Path

    @property
    def rental(self) -> Path:
        """Which rental this folder belongs to; without it the rental is gone."""
        return self.root / "rental.json"

    @property
    def machine(self) -> MachinePaths:
        """What this job shares with others on its machine (not on the client's own)."""
        return MachinePaths(self.root.parent.parent)

    @property
    def bundle(self) -> Path:
        """The list of what was sent to this machine, whose contents lie in its cache."""
        return self.root / "bundle.json"

    @property
    def onhost(self) -> Path:
        """A shell script that runs `gpujob.runtime.onhost` with its arguments, under this machine's Python."""
        return self.root / "onhost"

    @property
    def image(self) -> Path:
        """The image its agents run in; not there where they are bare processes."""
        return self.root / "image.json"

    @property
    def home(self) -> Path:
        """$HOME of agents that run in a container, whose image knows no home for their user."""
        return self.root / "home"

    def part(self, name: str) -> Path:
        """Give the folder a bundle part is unpacked to, shared by the attempts on this machine."""
        return self.root / "parts" / name

    @property
    def attempts(self) -> Path:
        """All attempts that ran here."""
        return self.root / "attempts"

    def attempt(self, attempt: int) -> AttemptPaths:
        """Give the paths of one attempt."""
        return AttemptPaths(self.attempts / f"{attempt:04d}")


@dataclass(frozen=True, slots=True)
class AttemptPaths:
    """One attempt's folder on the machine that runs it; no two attempts share one."""

    root: Path

    @property
    def work(self) -> Path:
        """A fresh copy of the code: the child's working directory."""
        return self.root / "work"

    @property
    def checkpoints(self) -> Path:
        """$GPUJOB_CHECKPOINT_DIR."""
        return self.root / "checkpoints"

    @property
    def resume(self) -> Path:
        """The restored checkpoint, $GPUJOB_RESUME_FROM."""
        return self.root / "resume"

    @property
    def output(self) -> Path:
        """$GPUJOB_OUTPUT_DIR."""
        return self.root / "output"

    @property
    def staging(self) -> Path:
        """Hard links of what is being uploaded, so that the child's own clean-up cannot pull it away."""
        return self.root / "staging"

    @property
    def metrics(self) -> Path:
        """$GPUJOB_METRICS."""
        return self.root / "metrics.jsonl"

    @property
    def verdict(self) -> Path:
        """$GPUJOB_VERDICT."""
        return self.root / "verdict.json"

    @property
    def train(self) -> Path:
        """$GPUJOB_TRAIN: what the built-in trainer is to do."""
        return self.root / "train.json"

    @property
    def log(self) -> Path:
        """What the child printed, redacted."""
        return self.root / "child.log"

    @property
    def events(self) -> Path:
        """What the agent has to tell a person: one Event per line."""
        return self.root / "events.jsonl"

    @property
    def report(self) -> Path:
        """The exit report, here as well as in the store."""
        return self.root / "exit.json"

    @property
    def launch(self) -> Path:
        """The Launch record (mode 0600) of an agent that cannot be given it otherwise; the agent deletes it."""
        return self.root / "launch.json"

    @property
    def agent_log(self) -> Path:
        """What the agent printed."""
        return self.root / "agent.log"

    @property
    def pid(self) -> Path:
        """The agent's process: pid and start time."""
        return self.root / "agent.json"
