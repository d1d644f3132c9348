"""What a job needs of a machine, held against what a look at it showed: one plain sentence for each thing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from gpujob.core.units import show_bytes, show_duration
from gpujob.hosts.survey import OLDEST_PYTHON, Engine, Survey, numbers

_ARCHES = ("x86_64", "aarch64")
_MOST_AHEAD, _ODD_AHEAD = 60.0, 5.0
_LEAST_RAM, _LITTLE_RAM = 1_000_000_000, 4_000_000_000
_LEAST_INODES = 10_000
_LITTLE_ENGINE_DISK = 10_000_000_000
_SLOW_STORE = 1.0


@dataclass(frozen=True, slots=True)
class Needs:
    """What a job needs.

    `contained`: its agents run in containers. `disk_bytes`: what will be written below the machine's root. `store`: the
    address (https://host:port) that must be reached from there, empty for none. `train`: it uses the built-in trainer.
    `cuda`: the version its image was made for, None where it needs no GPU, or that is not known.
    """

    contained: bool = False
    disk_bytes: int = 0
    store: str = ""
    train: bool = False
    cuda: str | None = None


def refusals(survey: Survey, needs: Needs) -> tuple[str, ...]:
    """Say everything that keeps the job from starting there: what, measured, needed, and what to do."""
    machine = (_system(survey, needs), _python(survey), _root(survey, needs), _memory(survey), _clock(survey))
    return tuple(chain(*machine, _engine(survey, needs), _gpu(survey, needs), _store(survey)))


def warnings(survey: Survey, needs: Needs) -> tuple[str, ...]:
    """Say what may go wrong there, or be worse than it has to be."""
    programs = (_odd_gpu(survey, needs), _odd_engine(survey, needs), _odd_python(survey, needs))
    return tuple(chain(_odd_machine(survey), *programs, _odd_store(survey), _odd_jobs(survey)))


def _system(survey: Survey, needs: Needs) -> Iterator[str]:
    if survey.system and survey.system != "Linux":
        yield f"it runs {survey.system}, and jobs run on Linux: choose another machine"
    elif survey.arch and survey.arch not in _ARCHES:
        yield f"its processor is a {survey.arch}, and the agent's libraries are made for {' and '.join(_ARCHES)}"
    elif survey.libc == "musl" and needs.train and not needs.contained:
        yield "its C library is musl, and torch needs glibc: choose an image of Debian or Ubuntu"


def _python(survey: Survey) -> Iterator[str]:
    if survey.python is None:
        there = ", ".join(each.version for each in survey.pythons) or "none"
        needed = ".".join(map(str, OLDEST_PYTHON))
        yield f"Python {needed} or newer is needed, and found was {there}: install one there, such as python3.11"


def _root(survey: Survey, needs: Needs) -> Iterator[str]:
    if survey.root_error:
        yield f"{survey.root} cannot be written ({survey.root_error}): name another folder with `root:` of the host"
    if survey.disk_free is not None and survey.disk_free < needs.disk_bytes:
        free, needed = show_bytes(survey.disk_free), show_bytes(needs.disk_bytes)
        yield f"{survey.root} has {free} free, and the job needs {needed}: free some, or name a larger disk by `root:`"
    if survey.inodes_free is not None and survey.inodes_free < _LEAST_INODES:
        yield (
            f"{survey.root} has room for {survey.inodes_free:,} more files, and {_LEAST_INODES:,} are needed: "
            "delete some, or name another disk with `root:`"
        )


def _memory(survey: Survey) -> Iterator[str]:
    if survey.memory is not None and survey.memory < _LEAST_RAM:
        yield f"it has {show_bytes(survey.memory)} of memory, and at least {show_bytes(_LEAST_RAM)} are needed"


def _clock(survey: Survey) -> Iterator[str]:
    if survey.ahead is not None and abs(survey.ahead) > _MOST_AHEAD:
        yield (
            f"its clock is {_apart(survey.ahead)} this computer's, and more than {show_duration(_MOST_AHEAD)} apart "
            f"they cannot work together{_third_clock(survey)}: set the wrong one, as with `timedatectl set-ntp true`"
        )


def _third_clock(survey: Survey) -> str:
    """Say which of two clocks is wrong, where a third one tells."""
    ahead = survey.store.ahead if survey.store else None
    return f" (it is {_apart(ahead)} the store's)" if ahead is not None else ""


def _apart(ahead: float) -> str:
    return f"{show_duration(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'}"


def _engine(survey: Survey, needs: Needs) -> Iterator[str]:
    engine = survey.engine
    if not needs.contained or (engine and engine.answers):
        return
    if engine is None:
        inside = ", and inside a rented container there can be none" if survey.container else ""
        yield f"the job has an `image:`, and no docker or podman is there{inside}: install one, or say `image: none`"
    else:
        yield f"the job has an `image:`, and {engine.path} does not answer this user ({engine.said}): {_way(engine)}"


def _way(engine: Engine) -> str:
    if engine.by_sudo:
        return "it does by sudo, so run `sudo usermod -aG docker $USER` there, and log in again"
    return "start it there, as with `sudo systemctl start docker`, or let this user use it"


def _gpu(survey: Survey, needs: Needs) -> Iterator[str]:
    if needs.cuda is None:
        return
    if not survey.gpus:
        why = f" ({survey.gpu_error})" if survey.gpu_error else ""
        yield f"the image is made for CUDA {needs.cuda}, and the machine shows no GPU{why}: choose one that has one"
    elif survey.cuda and numbers(needs.cuda)[:1] > numbers(survey.cuda)[:1]:
        yield (
            f"the image is made for CUDA {needs.cuda}, and driver {survey.gpus[0].driver} goes up to {survey.cuda}: "
            "choose an older image, or a machine with a newer driver"
        )
    elif needs.contained and survey.engine and survey.engine.answers and not survey.engine.nvidia:
        yield f"{survey.engine.name} cannot hand GPUs to a container: install the NVIDIA Container Toolkit there"


def _store(survey: Survey) -> Iterator[str]:
    if survey.store and survey.store.error:
        yield (
            f"the store {survey.store.url} cannot be reached from there ({survey.store.error}): "
            "let the machine out to it, or choose a store it can reach"
        )


def _odd_machine(survey: Survey) -> Iterator[str]:
    if survey.ahead is not None and _ODD_AHEAD < abs(survey.ahead) <= _MOST_AHEAD:
        yield f"its clock is {_apart(survey.ahead)} this computer's{_third_clock(survey)}"
    if survey.memory is not None and _LEAST_RAM <= survey.memory < _LITTLE_RAM:
        yield f"it has only {show_bytes(survey.memory)} of memory"


def _odd_gpu(survey: Survey, needs: Needs) -> Iterator[str]:
    if survey.gpu_error:
        yield f"nvidia-smi is there and does not work: {survey.gpu_error}"
    elif needs.train and survey.gpus == ():
        yield "it has no GPU: training runs on its processors"
    image, driver = numbers(needs.cuda or ""), numbers(survey.cuda)
    if image[:1] == driver[:1] and image > driver:
        yield f"the image is made for CUDA {needs.cuda}, and the driver goes up to {survey.cuda}: it may not start"


def _odd_engine(survey: Survey, needs: Needs) -> Iterator[str]:
    free = survey.engine.disk_free if survey.engine and needs.contained else None
    if survey.engine and free is not None and free < _LITTLE_ENGINE_DISK:
        yield f"{survey.engine.name} has {show_bytes(free)} free for images"


def _odd_python(survey: Survey, needs: Needs) -> Iterator[str]:
    python = survey.python
    if needs.contained or not needs.train or python is None or python.torch:
        return
    if python.pip or survey.uv:
        yield "no torch is there: it is installed before the first step, several GB with CUDA"
    else:
        yield "no torch is there, nor pip or uv to install it: install python3-pip, or choose an image with torch"


def _odd_store(survey: Survey) -> Iterator[str]:
    if survey.store and survey.store.distrust:
        yield f"its Python does not trust the store's certificate ({survey.store.distrust})"
    if survey.store and (survey.store.answer or 0) > _SLOW_STORE:
        yield f"the store takes {survey.store.answer:.1f} s to answer from there"


def _odd_jobs(survey: Survey) -> Iterator[str]:
    if living := [each for each in survey.jobs if each.agents]:
        yield f"other jobs run there: {', '.join(each.job_id for each in living[:5])}"
