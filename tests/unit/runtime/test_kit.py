"""What an agent imports on another machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpujob import bundle
from gpujob.core.errors import HostError
from gpujob.core.layout import HomePaths
from gpujob.runtime.kit import Kit, requirements

REPO = Path(__file__).parents[3]


def test_its_versions_are_those_the_tests_run_with() -> None:
    everything = (REPO / "requirements.lock").read_text().splitlines()
    assert [pin for pin in requirements("3.11") if pin not in everything and not pin.startswith("pip==")] == []
    assert [pin for pin in requirements("3.10") if pin not in requirements("3.11")] == ["obstore==0.11.1"]


@pytest.mark.real
def test_it_is_all_an_agent_needs_and_fetched_once(tmp_path: Path) -> None:
    kit = Kit(HomePaths(tmp_path))
    digest, folder = kit.folder(".".join(map(str, sys.version_info[:2])), os.uname().machine)
    assert folder.name == digest
    (folder / "mark").touch()
    assert kit.folder(".".join(map(str, sys.version_info[:2])), os.uname().machine) == (digest, folder)
    assert (folder / "mark").exists()
    modules = "gpujob.agent.__main__, gpujob.runtime.onhost, gpujob.transport.receive, gpujob.store.cloud, pip"
    found = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys, {modules}; print(*sys.path, sep='\\n')"],
        env={"PYTHONPATH": f"{bundle.app_part().parent}:{folder}", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "site-packages" not in found.stdout


@pytest.mark.real
def test_what_cannot_be_had_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="mips"):
        Kit(HomePaths(tmp_path)).folder("3.11", "mips")
    assert not [path for path in HomePaths(tmp_path).kits.iterdir() if not path.suffix]
