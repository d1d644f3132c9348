"""How a look at a machine is written. Everything given here is still to be escaped."""

from __future__ import annotations

from collections.abc import Iterator

from gpujob.core.units import show_bytes
from gpujob.hosts.survey import Engine, Python, Reach, Survey


def rows(survey: Survey) -> Iterator[tuple[str, str]]:
    """Give what a machine is as names and values."""
    kind = " in a container" if survey.container else ""
    yield "system", f"{survey.release} {survey.arch}, {survey.libc or 'unknown C library'}{kind}"
    yield "user", f"uid {survey.uid}" + (", may use sudo" if survey.sudo and survey.uid else "")
    yield "processors", str(survey.cpus or "unknown")
    yield "memory", _bytes(survey.memory) + (f" of {_bytes(survey.ram)}" if survey.memory_limit is not None else "")
    for gpu in survey.gpus or ():
        memory = f" {show_bytes(gpu.memory)}" if gpu.memory else ""
        yield "GPU", f"{gpu.name}{memory}, driver {gpu.driver}, CUDA up to {survey.cuda or 'unknown'}"
    if not survey.gpus:
        yield "GPU", survey.gpu_error or "none"
    yield "folder", f"{survey.root}" + (f": {survey.root_error}" if survey.root_error else "")
    inodes = f", {survey.inodes_free:,} files" if survey.inodes_free is not None else ""
    yield "free there", f"{_bytes(survey.disk_free)}{inodes}"
    for python in survey.pythons:
        yield "Python", _python(python)
    for engine in survey.engines:
        yield engine.name, _engine(engine)
    if survey.ahead is not None:
        yield "clock", f"{survey.ahead:+.1f} s" if survey.ahead else "right"
    if survey.store:
        yield "store", _reach(survey.store)
    for job in survey.jobs:
        yield "job", f"{job.job_id}, {job.agents or 'no'} agent{'' if job.agents == 1 else 's'} running"


def _bytes(size: int | None) -> str:
    return "unknown" if size is None else show_bytes(size)


def _python(python: Python) -> str:
    torch = f", torch {python.torch}" if python.torch else ""
    return f"{python.version} {python.path}{torch}{'' if python.serves else ' (too old)'}"


def _engine(engine: Engine) -> str:
    if not engine.answers:
        return f"{engine.path} does not answer{' but by sudo' if engine.by_sudo else ''}: {engine.said}"
    gpus = "hands out GPUs" if engine.nvidia else "hands out no GPUs"
    return f"{engine.version}, {gpus}, {_bytes(engine.disk_free)} free for images"


def _reach(reach: Reach) -> str:
    if reach.error:
        return f"{reach.url}: {reach.error}"
    connect = f"connects in {reach.connect * 1000:.0f} ms, " if reach.connect is not None else ""
    return f"{reach.url} {connect}answers in {(reach.answer or 0) * 1000:.0f} ms"
