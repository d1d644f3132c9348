"""Driving one job: read its state, do what that asks for, take in what became of it, until there is nothing left."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from gpujob.client import launch
from gpujob.client.journal import Journal, JournalEntry
from gpujob.client.launch import Change, taking
from gpujob.client.settings import Settings
from gpujob.client.tools import Clock, Tools
from gpujob.client.watch import Watch
from gpujob.core import moves
from gpujob.core.errors import GpujobError
from gpujob.core.lifecycle import pending
from gpujob.core.plan import Plan

log = logging.getLogger("gpujob.supervisor")

_LONGEST_PAUSE = 30.0
"""Between two tries of something that fails: a store that answers again is noticed within this."""

Pause = Callable[[float], bool]
"""Waits so many seconds; True when it was told to end instead."""
OpenTools = Callable[[Settings, Plan, Clock], Tools]


@dataclass(slots=True)
class Drive:
    """One job's driver. It keeps nothing that matters: a new one goes on from the journal."""

    job_id: str
    journal: Journal
    settings: Settings
    clock: Clock
    pause: Pause
    open_tools: OpenTools
    _tools: Tools | None = field(default=None, init=False)
    _watch: Watch | None = field(default=None, init=False)
    _troubles: int = field(default=0, init=False)

    def run(self) -> None:
        """Go on until the job needs nothing any more, or the pause says to end."""
        while (entry := self.journal.read(self.job_id)).job.active:
            moved = self._round(entry)
            if not moved and self._rest():
                return

    def _round(self, entry: JournalEntry) -> bool:
        """Do what is to be done; say whether there is something else to do by now."""
        todo, troubles = pending(entry.job), []
        for action in todo:
            try:
                entry = self._take_in(self._do(action, entry), entry)
            except Exception as error:  # whatever it is, the other actions and the other jobs go on
                self._tools = None
                troubles.append(_describe(error))
                if troubles[-1] not in entry.trouble:
                    log.warning("job %s: %s", self.job_id, type(action).__name__, exc_info=error)
                if isinstance(action, moves.Start):
                    break  # not started is not lost: looking for the agent now would be to miss it
            if pending(entry.job) != todo:
                break
        self._note(entry, "; ".join(dict.fromkeys(troubles)))
        return pending(entry.job) != todo and not troubles

    def _do(self, action: moves.Action, entry: JournalEntry) -> list[Change]:
        tools = self._open(entry)
        if isinstance(action, moves.Watch):
            # Kept when the tools are opened anew: how long a machine has been silent would be forgotten with it.
            self._watch = self._watch or Watch(tools)
            self._watch.tools = tools
            return [taking(event) for event in self._watch.look(entry)]
        change = self._act(action, tools, entry)
        return [change] if change else []

    def _act(self, action: moves.Action, tools: Tools, entry: JournalEntry) -> Change | None:
        if isinstance(action, moves.Acquire):
            return launch.acquire(tools, entry, action)
        if isinstance(action, moves.Ship):
            return launch.ship(tools, entry)
        if isinstance(action, moves.Start):
            return launch.start(tools, entry, action)
        if isinstance(action, moves.Wait):
            now = self.clock()
            return taking(moves.Due(now)) if now >= action.until else None
        if isinstance(action, moves.Interrupt):
            launch.interrupt(tools, entry)
            return None
        if isinstance(action, moves.Stop):
            return launch.stop(tools, entry, action)
        if isinstance(action, moves.Release):
            return launch.release(tools, entry, action)
        assert isinstance(action, moves.Settle)
        return launch.settle(tools, entry, action)

    def _take_in(self, changes: list[Change], entry: JournalEntry) -> JournalEntry:
        for change in changes:
            entry = self.journal.update(self.job_id, change)
        return entry

    def _open(self, entry: JournalEntry) -> Tools:
        if self._tools is None:
            self._tools = self.open_tools(self.settings, entry.plan, self.clock)
        return self._tools

    def _note(self, entry: JournalEntry, trouble: str) -> None:
        """Keep what is in the way where a person sees it: once per trouble, and gone when it is over."""
        self._troubles = self._troubles + 1 if trouble else 0
        if trouble == entry.trouble:
            return
        now = self.clock()

        def note(entry: JournalEntry) -> JournalEntry:
            marked = entry.model_copy(update={"trouble": trouble})
            return marked.noting(now, "trouble", trouble) if trouble else marked

        self.journal.update(self.job_id, note)

    def _rest(self) -> bool:
        """Wait for the next look; after trouble ever longer, but no longer than until somebody changes the entry."""
        wait = self.settings.poll_seconds
        signature = self.journal.signature(self.job_id)
        longest = min(wait * 2.0 ** min(self._troubles, 30), max(_LONGEST_PAUSE, wait))
        waited = 0.0
        while waited < longest and self.journal.signature(self.job_id) == signature:
            if self.pause(wait):
                return True
            waited += wait
        return False


def _describe(error: Exception) -> str:
    return str(error) if isinstance(error, GpujobError) else f"{type(error).__name__}: {error}"
