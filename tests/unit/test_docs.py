"""The pages stay true: links lead somewhere, verbs exist, examples load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpujob import jobfile
from gpujob.cli.main import VERBS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    broken = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_verb_that_is_named_exists(page: Path) -> None:
    named = set(re.findall(r"(?:`|\$ )gpujob ([a-z]+)\b", page.read_text()))
    assert named <= set(VERBS)


def test_every_page_can_be_reached_from_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    assert [page.name for page in PAGES[1:] if f"docs/{page.name}" not in text] == []


def test_the_readmes_job_is_a_good_one(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.jsonl").touch()
    (tmp_path / "job.yaml").write_text(example)
    assert jobfile.load(tmp_path / "job.yaml", {}).name == "my-job"
