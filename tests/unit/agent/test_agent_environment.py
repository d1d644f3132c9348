"""Which Python trains on a rented machine, and the making of one where there is none."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from gpujob.agent import environment
from gpujob.core.layout import MachinePaths

REPO = Path(__file__).parents[3]
HERE = sys.executable


def wheel(folder: Path, name: str, version: str) -> None:
    """Write a wheel of one module that knows its version."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock of two packages, and a folder pip finds them in, and nowhere else."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel(folder, "torch", "2.13.0")
    wheel(folder, "trl", "1.16.0")
    (tmp_path / "train.lock").write_text("# a comment\ntorch==2.13.0\ntrl==1.16.0\n")
    monkeypatch.setattr(environment, "LOCK", tmp_path / "train.lock")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # without a uv that would not heed those
    return folder


def bare_python(folder: Path) -> Path:
    """Give a Python that has nothing."""
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


def _pip_of_this_interpreter(python: Path) -> list[str]:
    return [HERE, "-m", "pip", "--python", str(python), "install", "--quiet"]


def imports(python: str, code: str) -> str:
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_an_interpreter_that_has_everything_is_used_as_it_is(tmp_path: Path) -> None:
    assert environment.choose(MachinePaths(tmp_path)) == environment.Choice(sys.executable)


def test_an_interpreter_that_cannot_be_asked_has_nothing(tmp_path: Path) -> None:
    assert environment.versions(str(tmp_path / "no-python")) == {}


def test_what_is_missing_is_made_once_and_named_by_its_content(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = bare_python(tmp_path / "bare")
    monkeypatch.setattr(environment, "_pip", _pip_of_this_interpreter)
    monkeypatch.setattr(sys, "executable", str(bare))
    choice = environment.choose(MachinePaths(tmp_path))
    assert choice.make is not None
    environment.make(choice.make)
    assert imports(choice.python, "import torch, trl; print(torch.VERSION, trl.VERSION)") == "2.13.0 1.16.0"
    assert environment.choose(MachinePaths(tmp_path)) == environment.Choice(choice.python), "made once"
    (tmp_path / "train.lock").write_text("torch==2.13.0\ntrl==1.17.0\n")
    assert environment.choose(MachinePaths(tmp_path)).make not in (None, choice.make)


def test_the_machines_own_torch_is_reused(tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = bare_python(tmp_path / "image")
    subprocess.run([*_pip_of_this_interpreter(python), "torch"], check=True)
    (index / "torch-2.13.0-py3-none-any.whl").unlink()
    monkeypatch.setattr(environment, "_pip", _pip_of_this_interpreter)
    monkeypatch.setattr(sys, "executable", str(python))
    choice = environment.choose(MachinePaths(tmp_path))
    assert choice.make is not None
    environment.make(choice.make)
    assert imports(choice.python, "import torch, trl; print(torch.__file__)").startswith(str(tmp_path / "image"))


def test_one_that_was_cut_short_is_made_again(tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = bare_python(tmp_path / "bare")
    monkeypatch.setattr(environment, "_pip", _pip_of_this_interpreter)
    monkeypatch.setattr(sys, "executable", str(python))
    (trl,) = index.glob("trl-*")
    trl.rename(tmp_path / trl.name)
    choice = environment.choose(MachinePaths(tmp_path))
    assert choice.make is not None
    with pytest.raises(subprocess.CalledProcessError):
        environment.make(choice.make)
    assert environment.choose(MachinePaths(tmp_path)) == choice
    (tmp_path / trl.name).rename(trl)
    environment.make(choice.make)
    assert imports(choice.python, "import trl; print(trl.VERSION)") == "1.16.0"


def test_the_lock_names_the_versions_the_tests_run_with() -> None:
    everything = (REPO / "requirements.lock").read_text().splitlines()
    lines = [line for line in environment.LOCK.read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if line not in everything] == []
    assert {line.partition("==")[0] for line in lines} >= {"torch", "transformers", "peft", "trl", "pydantic", "blake3"}
