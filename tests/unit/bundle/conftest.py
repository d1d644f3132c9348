"""What shipping and unpacking are both tested with."""

from __future__ import annotations

import pytest

from gpujob.bundle import blobs
from support.shipping import Counted


@pytest.fixture
def store() -> Counted:
    return Counted()


@pytest.fixture(params=["in memory", "as a file"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways a file takes: small ones in one piece, big ones from disk to store and back."""
    if request.param == "as a file":
        monkeypatch.setattr(blobs, "IN_MEMORY", -1)
    return str(request.param)
