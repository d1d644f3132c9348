"""One call of the command line: what a verb is given instead of globals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gpujob.cli.output import Output

if TYPE_CHECKING:
    from gpujob.client.journal import Journal, JournalEntry
    from gpujob.client.settings import Settings
    from gpujob.client.status import Status
    from gpujob.store.protocol import Store


@dataclass
class Call:
    """The environment, the way to say things, and what follows from them, made when first asked for."""

    environ: Mapping[str, str]
    output: Output
    now: Callable[[], float]
    sleep: Callable[[float], None]

    @cached_property
    def settings(self) -> Settings:
        """What the environment says about this client."""
        from gpujob.client.settings import Settings

        return Settings.read(self.environ)

    @cached_property
    def journal(self) -> Journal:
        """The jobs this client knows."""
        from gpujob.client.journal import Journal

        return Journal(self.settings.home)

    def store(self, entry: JournalEntry) -> Store:
        """Open a job's store, with the credentials it was submitted with, else those of the environment."""
        from gpujob.client.tools import open_job_store

        return open_job_store(self.settings, entry.plan)

    def status(self, entry: JournalEntry) -> Status:
        """Say how a job stands, as far as can be known: without its store, what this client saw last."""
        from gpujob.client.status import status
        from gpujob.core.errors import StoreError

        try:
            return status(entry, self.store(entry), self.now())
        except StoreError:
            return status(entry, None, self.now()).model_copy(update={"stale": True})

    def wake(self) -> None:
        """See to it that active jobs are driven; that it cannot be done is said, and hides nothing else."""
        from gpujob.client.supervisor import wake
        from gpujob.core.errors import HostError

        try:
            wake(self.settings)
        except HostError as error:
            self.output.note(f"warning: {error}")
