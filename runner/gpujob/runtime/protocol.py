"""The seam to how an agent runs on a machine, owned by the client.

Why it exists: in a rented container the agent is a bare process, on a rented VM it is a container of its own, and the
client must not care.

Contract
    once        An attempt is started at most once on a machine: starting it again does nothing, whether it still runs
                or has ended.
    alone       Before an attempt starts, no process of the job's earlier attempts is left on the machine.
    detached    A started attempt outlives its client.
    secrets     Travel on standard input and appear in no argument, environment of the agent, or file.
    errors      HostError for the machine, StoreError and Damaged for the bundle; nothing else.
"""

from __future__ import annotations

from typing import Protocol

from gpujob.core.records import Launch


class Runtime(Protocol):
    """Starts, watches and stops the attempts of one job on one machine."""

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
