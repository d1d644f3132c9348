"""What the command line says about itself, what it costs to ask, and that docs/cli.md says the same."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from gpujob import __version__
from gpujob.cli import verbs
from gpujob.cli.exits import MEANINGS
from gpujob.cli.main import VERBS
from support.console import Shell

HEAVY = (
    "paramiko",
    "boto3",
    "botocore",
    "obstore",
    "fsspec",
    "torch",
    "transformers",
    "pydantic",
    "rich",
    "yaml",
    "numpy",
)
DOCS = Path(__file__).parents[3] / "docs" / "cli.md"


def command(verb: str) -> click.Command:
    found: click.Command = importlib.import_module(f"gpujob.cli.verbs.{verb}").command
    return found


def test_every_file_is_a_verb_and_every_verb_a_file() -> None:
    (folder,) = verbs.__path__
    assert {path.stem for path in Path(folder).glob("*.py")} - {"__init__"} == set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb(shell: Shell, verb: str) -> None:
    ran = shell(verb, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert f"Examples:\n    gpujob {verb}" in ran.out
    assert "--json" in ran.out
    assert (command(verb).help or "").splitlines()[0] == VERBS[verb]


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_help(shell: Shell, words: tuple[str, ...]) -> None:
    ran = shell(*words)
    assert ran.code == 0
    assert all(f"\n  {verb} " in ran.out for verb in VERBS)


def test_version(shell: Shell) -> None:
    assert shell("--version").out == f"gpujob {__version__}\n"


def test_a_misspelt_verb_is_answered_with_the_nearest(shell: Shell) -> None:
    ran = shell("sumbit")
    assert (ran.code, "did you mean `gpujob submit`?" in ran.err) == (2, True)
    assert "the verbs are init, validate" in shell("frobnicate").err


@pytest.mark.parametrize("words", [("ps", "--no-such"), ("status",), ("logs", "x", "-n", "many"), ("--no-such",)])
def test_a_wrong_command_line_is_told_as_text_and_as_json(shell: Shell, words: tuple[str, ...]) -> None:
    ran = shell(*words)
    assert (ran.code, ran.out) == (2, "")
    assert "--help` shows how it is called" in ran.err
    ran = shell(*words, "--json")
    assert (ran.code, ran.err) == (2, "")
    assert ran.json["error"]["hint"]


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["sumbit"]])
def test_asking_for_help_loads_nothing_heavy(words: list[str]) -> None:
    program = (
        "import sys\nfrom gpujob.cli.main import run\n"
        f"run({words!r}, {{}})\nprint('LOADED', *sorted({{name.split('.')[0] for name in sys.modules}}))"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.rsplit("LOADED ", 1)[1].split())
    assert "click" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "GPUJOB_HOME": str(tmp_path)}
    reader, writer = os.pipe()
    os.close(reader)
    argv = [sys.executable, "-m", "gpujob.cli.main", "ps"]
    done = subprocess.run(argv, env=environ, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_the_reference_lists_every_verb_option_and_code() -> None:
    text = DOCS.read_text()
    sections = dict(re.findall(r"^## gpujob (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert list(sections) == list(VERBS)
    for verb, section in sections.items():
        options = [each for each in command(verb).params if isinstance(each, click.Option) and each.name != "json"]
        said = {each.opts[-1]: each.help for each in options}
        assert dict(re.findall(r"^\| `(--[a-z-]+)[^|]*` \| (.*) \|$", section, re.MULTILINE)) == said
        assert VERBS[verb] in section
    codes = {int(code): meaning for code, meaning in re.findall(r"^\| (\d+) \| (.*) \|$", text, re.MULTILINE)}
    assert codes == {int(code): meaning for code, meaning in MEANINGS.items()}
