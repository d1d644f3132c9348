"""Ending a job that a person no longer wants."""

from __future__ import annotations

import time

from gpujob.client.journal import Journal, JournalEntry
from gpujob.client.settings import Settings
from gpujob.client.supervisor import wake
from gpujob.client.tools import Clock
from gpujob.core.moves import CancelRequested


def cancel(settings: Settings, job_id: str, clock: Clock = time.time) -> JournalEntry:
    """Note the wish and see that somebody fulfils it; give the entry. A job that is over stays as it is."""
    entry = Journal(settings.home).apply(job_id, CancelRequested(clock()))
    wake(settings, clock)
    return entry
