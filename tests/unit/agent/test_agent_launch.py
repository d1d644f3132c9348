"""How an agent is told what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpujob.core.layout import HostPaths
from support.agents import launch_of


def agent(*words: str, told: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    argv = [sys.executable, "-m", "gpujob.agent", *words]
    return subprocess.run(argv, input=told, capture_output=True, check=False)


def test_a_launch_file_is_read_and_deleted(tmp_path: Path) -> None:
    launch = launch_of("launched-abc234", tmp_path, store="nowhere://", secrets={"TOKEN": "sesame"})
    (tmp_path / "launch.json").write_bytes(launch.encode())
    HostPaths(tmp_path).attempt(1).root.mkdir(parents=True)
    done = agent("--launch", str(tmp_path / "launch.json"))
    assert b"nowhere" in done.stderr, "it went as far as the store"
    assert not (tmp_path / "launch.json").exists()
    assert HostPaths(tmp_path).attempt(1).pid.exists()


@pytest.mark.parametrize("way", ["file", "input"])
def test_an_unreadable_record_is_refused_without_a_word_of_it(way: str, tmp_path: Path) -> None:
    told, path = b'{"secrets": {"TOKEN": "sesame"}}', tmp_path / "launch.json"
    path.write_bytes(told)
    done = agent("--launch", str(path)) if way == "file" else agent(told=told)
    assert done.returncode == 2
    assert b"cannot be read" in done.stderr
    assert b"sesame" not in done.stderr + done.stdout
    assert path.exists() == (way == "input")
