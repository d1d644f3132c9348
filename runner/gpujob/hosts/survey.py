"""What a look at a machine showed. The machine is a stranger: every text of its is cut and tamed before it is kept."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from gpujob.core.records import Record

OLDEST_PYTHON = (3, 10)
"""What gpujob needs on a machine."""

_TEXT, _ITEMS, _ANSWER, _PATH = 300, 100, 1 << 20, 1024

T = TypeVar("T")


def _tame(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return "".join(char for char in " ".join(value[:_TEXT].split()) if char.isprintable())


def _check_path(value: str) -> str:
    if not value.startswith("/") or not value.isprintable() or len(value) > _PATH or ".." in PurePosixPath(value).parts:
        raise ValueError("not an absolute path of printable characters")
    return value


def _first(value: Any) -> Any:
    return value[:_ITEMS] if isinstance(value, list) else value


Said = Annotated[str, BeforeValidator(_tame)]
"""One line of at most 300 printable characters."""
Path = Annotated[str, AfterValidator(_check_path)]
"""An absolute path that can be put into a command and a message as it is."""
Count = Annotated[int, Field(ge=0, lt=2**63)]
Duration = Annotated[float, Field(ge=0)]
Few = Annotated[tuple[T, ...], BeforeValidator(_first)]
"""The first hundred of a list."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Python(_Part):
    """An interpreter; `torch` is its version, `cuda` the one that torch was built for, each empty without."""

    path: Path
    version: Said
    pip: bool = False
    torch: Said = ""
    cuda: Said = ""

    @property
    def serves(self) -> bool:
        """Say whether gpujob runs under it."""
        return numbers(self.version) >= OLDEST_PYTHON


class Gpu(_Part):
    """One card; its memory in bytes, where it has its own."""

    name: Said
    memory: Count | None = None
    driver: Said = ""


class Engine(_Part):
    """Docker or podman: whether it answers this user (`said` why not), or root by sudo, and can hand out GPUs."""

    name: Said
    path: Path
    version: Said = ""
    answers: bool = False
    by_sudo: bool = False
    said: Said = ""
    nvidia: bool = False
    disk_free: Count | None = None


class Reach(_Part):
    """The way to the store: seconds to connect and to get any answer, and how far the machine's clock is ahead of its.

    `error` is why there is none, `distrust` what the machine's Python has against the store's certificate.
    """

    url: Said
    connect: Duration | None = None
    answer: Duration | None = None
    ahead: float | None = None
    error: Said = ""
    distrust: Said = ""


class Leftover(_Part):
    """The folder of a job, and how many of its agents live."""

    job_id: Said
    agents: Count = 0


class Survey(Record):
    """One look at a machine. What could not be found out is None or empty; sizes are bytes.

    `ahead` is how many seconds its clock is ahead of this computer's, `memory_limit` what its control group may have
    of `ram`, `cuda` the newest the GPU's driver can run, `root` where everything of ours lies.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    system: Said = ""
    release: Said = ""
    arch: Said = ""
    libc: Said = ""
    hostname: Said = ""
    boot_id: Said = ""
    uid: Count | None = None
    sudo: bool = False
    container: bool = False
    cpus: Count | None = None
    ram: Count | None = None
    memory_limit: Count | None = None
    root: Path | None = None
    root_error: Said = ""
    disk_free: Count | None = None
    inodes_free: Count | None = None
    clock: float | None = None
    seconds: Duration = 0.0
    ahead: float | None = None
    pythons: Few[Python] = ()
    uv: bool = False
    gpus: Few[Gpu] | None = None
    gpu_error: Said = ""
    cuda: Said = ""
    engines: Few[Engine] = ()
    store: Reach | None = None
    jobs: Few[Leftover] = ()

    @property
    def python(self) -> Python | None:
        """The interpreter to use: one with torch where there is one, else the first that is new enough."""
        fit = [each for each in self.pythons if each.serves]
        return next((each for each in fit if each.torch), fit[0] if fit else None)

    @property
    def engine(self) -> Engine | None:
        """The engine to use: one that answers where there is one."""
        return next((each for each in self.engines if each.answers), self.engines[0] if self.engines else None)

    @property
    def memory(self) -> int | None:
        """What a job can have of the memory."""
        return self.memory_limit if self.memory_limit is not None else self.ram


def read(answer: bytes, mark: str) -> Survey:
    """Take the survey out of what a machine answered; raises ValueError when there is none.

    It is the last line that begins with `mark`: what else was printed is noise.
    """
    lines = [line for line in answer[-_ANSWER:].decode(errors="replace").splitlines() if line.startswith(mark)]
    if not lines:
        raise ValueError("there is no survey in the answer")
    try:
        return Survey.model_validate(json.loads(lines[-1][len(mark) :]))
    except RecursionError:
        raise ValueError("the survey is nested too deep") from None


def numbers(version: str) -> tuple[int, ...]:
    """Give the leading numbers of a version: (3, 11, 2) of `3.11.2`, and none of what is not one."""
    parts = version.split(".")[:4]
    return tuple(int(part) for part in parts) if all(part.isascii() and part.isdigit() for part in parts) else ()
