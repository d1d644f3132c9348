"""A job's status in a test: an ordinary running job, but for what is said otherwise."""

from __future__ import annotations

from typing import Any

from gpujob.client.status import Amount, Status
from gpujob.core.job import State
from gpujob.core.records import Phase

AT = 1_700_000_000.0


def a_status(**changes: Any) -> Status:
    """Give a running job with these fields changed."""
    values: dict[str, Any] = {
        "id": "support-bot-abc234",
        "name": "support-bot",
        "state": State.RUNNING,
        "reason": None,
        "sentence": "Attempt 2 is at step 1210.",
        "host": "gpu-box",
        "attempt": 2,
        "phase": Phase.TRAINING,
        "step": 1210,
        "total_steps": 3000,
        "loss": 1.23456,
        "durable_step": 1200,
        "at_risk": Amount(seconds=372.0, cost=0.312),
        "spent": Amount(seconds=21_720.0, cost=2.3149),
        "submitted_at": AT - 30_000,
        "ended_at": None,
        "heard_at": AT,
        "unreleased": (),
        "trouble": "",
        "stale": False,
    }
    return Status(**{**values, **changes})
