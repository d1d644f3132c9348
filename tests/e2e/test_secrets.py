"""P8: planted secret values are looked for everywhere a job leaves anything, while it runs and afterwards."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from support.desk import Desk, until

pytestmark = pytest.mark.real

TOKEN = "hf_PLANTEDtoken0123456789abcdefghij"
KEY = "planted/AWS+key=0123456789"
FROM_FILE = "planted value, with spaces: from a file"

PROGRAM = """
set -u
echo "the token is $TOKEN and the file says $OTHER"
echo "{\\"step\\": 1, \\"loss\\": 1.0, \\"note\\": \\"$TOKEN\\"}" >> "$GPUJOB_METRICS"
test -z "${AWS_SECRET_ACCESS_KEY:-}" || echo "the store's key is $AWS_SECRET_ACCESS_KEY"
step="$GPUJOB_CHECKPOINT_DIR/step-1"
mkdir "$step" && echo 1 > "$step/count" && touch "$step/COMPLETE"
until test -e "$GATE"; do sleep 0.1; done
echo "{\\"reason\\": \\"BAD_DATA\\", \\"sentence\\": \\"the value $TOKEN is no good\\"}" > "$GPUJOB_VERDICT"
echo "giving up on $OTHER" >&2
exit 3
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path / "desk", TOKEN=TOKEN, AWS_SECRET_ACCESS_KEY=KEY, AWS_ACCESS_KEY_ID="planted-id")
    yield made
    made.close()


def everything_below(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path, path.read_bytes()


def leaks(folder: Path) -> set[str]:
    """Name the files below a folder that hold a planted value."""
    planted = [value.encode() for value in (TOKEN, KEY, FROM_FILE)]
    return {
        str(path.relative_to(folder))
        for path, data in everything_below(folder)
        if any(value in data for value in planted) or any(value in str(path).encode() for value in planted)
    }


class ProcessList:
    """Read every command line of the machine again and again, and keep those with a planted value."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self.looks = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> ProcessList:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._end.wait(0.02):
            self.looks += 1
            for process in psutil.process_iter(["cmdline"]):
                words = " ".join(process.info["cmdline"] or ())
                if any(value in words for value in (TOKEN, KEY, FROM_FILE)):
                    self.found.add(words)


def test_planted_secrets_are_nowhere(desk: Desk, tmp_path: Path) -> None:
    folder, gate = tmp_path / "job", tmp_path / "gate"
    folder.mkdir()
    (folder / ".env").write_text(f"PRIVATE={TOKEN}\n")
    (folder / "server.pem").write_text(TOKEN)
    (folder / "program.sh").write_text(PROGRAM)
    spec = {
        "name": "secrets",
        "run": "bash program.sh",
        "env": {"GATE": str(gate)},
        "secrets": ["TOKEN", "OTHER"],
        "recovery": {"max_failures": 0},
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(spec))
    values = tmp_path / "values.env"
    values.write_text(f"OTHER={FROM_FILE}\n")
    kept = desk.home.root / "secrets"

    with ProcessList() as listed:
        job_id = desk.submit(folder / "job.yaml", "--env-file", str(values))
        until(lambda: (beat := desk.beat(job_id)) and beat.durable_step == 1, "a durable checkpoint")
        (secret_file,) = kept.iterdir()
        assert secret_file.stat().st_mode & 0o777 == 0o600
        own = f"rentals/{job_id}/attempts/0001/metrics.jsonl"  # what the program itself writes on the rental's disk
        assert leaks(desk.home.root) == {f"secrets/{secret_file.name}", own}
        gate.touch()
        printed = [desk.gpujob("wait", job_id, code=12)]
    printed += [desk.gpujob(*words) for words in (("status", job_id, "--json"), ("logs", job_id), ("events", job_id))]

    assert listed.looks > 10
    assert not listed.found
    assert leaks(desk.home.root) == set()
    assert not any(value in text for value in (TOKEN, KEY, FROM_FILE) for text in printed)
    log = next(text for text in printed if "the token is" in text)
    assert "the store's key" not in log, "the program must not see the store's credentials"
    assert "the token is *** and the file says ***" in log
    assert "no good" in printed[1], "the verdict's sentence reaches the person, without the value"
    assert os.environ.get("TOKEN") is None


def test_a_secret_without_a_value_is_named_and_nothing_is_submitted(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump({"name": "s", "run": "true", "secrets": ["NOT_THERE"]}))
    said = desk.gpujob("submit", str(tmp_path / "job.yaml"), "--detach", "--json", code=2)
    assert "NOT_THERE" in said
    assert not list(desk.home.journal.glob("*.json")) if desk.home.journal.exists() else True
