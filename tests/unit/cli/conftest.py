"""Fixtures of the command line's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.console import Shell


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A home of its own, in a folder of its own, where no supervisor is started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gpujob.client.supervisor.ensure_running", lambda settings: None)
    return Shell(tmp_path, capsys)
