"""Every error gpujob raises on purpose, split by what the caller does next.

GpujobError                      operation, object, cause, next step (exit code in cli/exits.py)
├── UsageError                   the command line is wrong: fix it
├── SpecError                    job.yaml is wrong: carries every Problem of the file
├── CheckError                   the job would fail: fix the data, the model or the settings
├── NotFoundJob                  no job of that id, prefix or name
├── StoreError                   object storage
│   ├── NotFound                 no such object
│   ├── AlreadyExists            create-if-absent lost
│   ├── PreconditionFailed       replace-if-match lost
│   ├── StoreDenied              credentials or permissions: a person must act
│   └── StoreUnavailable         may pass: retry
├── Damaged                      bytes are not what their manifest says: use an older copy
├── Fenced                       another attempt holds the job: stop at once, touch nothing
├── ResumeRefused                the checkpoint belongs to other settings: start a fresh job
└── HostError                    a machine, or a process on it
    ├── HostUnreachable          it does not answer: says nothing about the job; may pass
    └── HostDenied               who it is, or who we are, is not accepted: a person must act
"""

from __future__ import annotations

from dataclasses import dataclass


class GpujobError(Exception):
    """An error a person can act on.

    `operation` is what was being done ("upload"), `target` what it was done to ("checkpoint 120"),
    `cause` why it failed, `hint` what to do next.
    """

    def __init__(self, operation: str, target: str, cause: str, hint: str = "") -> None:
        super().__init__(operation, target, cause, hint)
        self.operation, self.target, self.cause, self.hint = operation, target, cause, hint

    def __str__(self) -> str:
        text = f"cannot {self.operation} {self.target}: {self.cause}"
        return f"{text}\n  {self.hint}" if self.hint else text


class UsageError(GpujobError):
    """The command was called wrongly."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a file, with the place a person must go to.

    `line` and `column` count from 1; `field` is the dotted path ("train.lora.r"); `message` says what is
    wrong and what is allowed; `hint` is the way out where there is one.
    """

    path: str
    line: int
    column: int
    field: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}:{self.column}"
        text = f"{where}: {self.field}: {self.message}" if self.field else f"{where}: {self.message}"
        return f"{text} ({self.hint})" if self.hint else text


class SpecError(GpujobError):
    """job.yaml is wrong. `problems` holds all of them, in file order."""

    def __init__(self, path: str, problems: tuple[Problem, ...]) -> None:
        self.path, self.problems = path, problems
        count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
        super().__init__("use", path, count)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class CheckError(GpujobError):
    """The spec is well formed, but the job would fail."""


class NotFoundJob(GpujobError):
    """No job, or more than one, answers to that id, prefix or name."""


class StoreError(GpujobError):
    """Object storage said no, or nothing."""


class NotFound(StoreError):
    """There is no such object."""


class AlreadyExists(StoreError):
    """Create-if-absent lost: the object is there."""


class PreconditionFailed(StoreError):
    """Replace-if-match lost: the object is another version by now."""


class StoreDenied(StoreError):
    """Credentials or permissions are missing or wrong; trying again does not help."""


class StoreUnavailable(StoreError):
    """The store did not answer, or asked to slow down; trying again may help."""


class Damaged(GpujobError):
    """Bytes differ from what their manifest says."""


class Fenced(GpujobError):
    """A newer generation holds this job. The only right answer is to stop and touch nothing."""


class ResumeRefused(GpujobError):
    """The checkpoint was made with other settings, data or seed; going on from it would be silently wrong."""


class HostError(GpujobError):
    """A machine, or a process on it, could not do what was asked."""


class HostUnreachable(HostError):
    """The machine does not answer. Says nothing about what runs on it; trying again may help."""


class HostDenied(HostError):
    """The machine's key is not the expected one, or it does not accept ours; trying again does not help."""
