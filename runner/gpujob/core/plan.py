"""JobSpec -> Plan: everything decided, nothing done. `submit --dry-run` prints it; the store keeps it as job.json."""

from __future__ import annotations

from typing import Any

from gpujob.core.records import Record
from gpujob.core.spec import Host, JobSpec


class Plan(Record):
    """One job, decided. Immutable from the moment it lies in the store.

    `training_digest` covers all that determines the weights (train settings, data, model, code): a checkpoint of
    another digest is never resumed. `local_parts` maps a bundle part to the client's path it is packed from.
    `notes` are the decisions a person should know of.
    """

    job_id: str
    name: str
    spec: JobSpec
    store: str
    hosts: tuple[Host, ...]
    command: str | None
    created_at: float
    local_parts: dict[str, str]
    notes: tuple[str, ...] = ()

    def summary(self) -> dict[str, Any]:
        """Give the plan as plain JSON values."""
        return self.model_dump(mode="json")
