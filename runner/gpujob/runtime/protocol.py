"""The seam to how an agent runs on a machine, owned by the client.

Why it exists: in a rented container the agent is a bare process, on a rented VM it is a container of its own, and the
client must not care.

Contract
    ship        Brings everything an attempt needs before it can start, and only what is not there yet; may be
                repeated, and goes on where it was cut off.
    once        An attempt is started at most once on a machine: starting it again does nothing, whether it still runs
                or has ended.
    alone       Before an attempt starts, no process of the job's earlier attempts is left on the machine.
    detached    A started attempt outlives its client.
    secrets     Travel on standard input and appear in no argument, environment of the agent, or file.
    errors      HostError for the machine (HostUnreachable says nothing about what runs there), StoreError and Damaged
                for the bundle; nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gpujob.core.records import Bundle, Launch
from gpujob.store.protocol import Progress


@dataclass(frozen=True, slots=True)
class Cargo:
    """What a machine needs before an attempt of a job can start there.

    `root` is the job's folder on the machine. `app` and `image` are folders of this computer with the job's own
    version of gpujob (a PYTHONPATH) and its Dockerfile, None where there is none. `bundle` and `sources` (a file of
    this computer for each digest) are what travels, as long as the store does not have it all; None when it does.
    """

    job_id: str
    root: str
    app: Path | None = None
    image: Path | None = None
    bundle: Bundle | None = None
    sources: Mapping[str, Path] = field(default_factory=dict)


class Runtime(Protocol):
    """Starts, watches and stops the attempts of one job on one machine."""

    def ship(self, cargo: Cargo, progress: Progress | None = None) -> None:
        """Bring what is needed to the machine; `progress` is told of bytes of the bundle's files as they get there."""
        ...

    def start(self, launch: Launch) -> None:
        """Start an attempt; returns when the agent runs or has run. Raises HostError when it cannot start."""
        ...

    def alive(self, root: str, attempt: int) -> bool:
        """Say whether an attempt's agent runs."""
        ...

    def last_words(self, root: str, attempt: int) -> str:
        """Give the last line an attempt's agent printed; empty when it printed none, or it cannot be had."""
        ...

    def stop(self, job_id: str, root: str, last_attempt: int, grace: float) -> None:
        """Ask the agent to end, and after `grace` seconds kill everything of the attempts up to `last_attempt`.

        Returns only when no process of them is left; raises HostError naming those that stay.
        """
        ...
