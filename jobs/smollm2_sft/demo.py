"""The whole story on this machine: train, lose the rental without warning in the middle, go on by itself.

Run by `make demo`. It submits job.yaml, follows it, and once a third of the steps are durable it kills every process
of the attempt with SIGKILL and deletes the folder that plays the rented disk, as a released rental would.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "demo"
ENVIRON = {**os.environ, "GPUJOB_HOME": str(BUILD / "home"), "HF_HUB_OFFLINE": "1"}
GPUJOB = [sys.executable, "-m", "gpujob.cli.main"]

console = Console(highlight=False)


def ask(*words: str) -> dict:
    """Run a verb with --json."""
    done = subprocess.run([*GPUJOB, *words, "--json"], env=ENVIRON, capture_output=True, text=True, check=False)
    return json.loads(done.stdout or "{}")


def release_rental(job_id: str) -> None:
    """Do what the end of a rental does: nothing of the job runs any more, and its disk is gone."""
    rental = BUILD / "home" / "rentals" / job_id
    gone = rental.rename(rental.with_name(f"gone-{job_id}"))  # all at once, before anybody can look
    for process in psutil.process_iter():
        try:
            if process.environ().get("GPUJOB_ID") == job_id:
                process.kill()
        except psutil.Error:
            continue
    shutil.rmtree(gone)


def release_once(done: threading.Event, story: list[str]) -> None:
    """Wait until a third of the training is durable and some steps are not, then release the rental.

    What was done is told afterwards: the live view has the terminal for itself.
    """
    while not done.wait(1.0):
        jobs = ask("ps", "--all").get("jobs", [])
        status = ask("status", jobs[0]["id"]) if jobs else {}
        total, durable, step = status.get("total_steps"), status.get("durable_step") or 0, status.get("step") or 0
        if total and durable >= total / 3 and step >= durable + 2:
            release_rental(status["id"])
            story.append(f"At step {step} every process was killed and the folder deleted; step {durable} was durable.")
            return


def show_result(result: Path) -> None:
    """Print where everything is, and what the training changed."""
    summary = json.loads((result / "summary.json").read_text())
    table = Table("Question", "Before", "After", title="Replies", show_lines=True)
    for reply in summary["replies"]:
        table.add_row(reply["prompt"], reply["before"], reply["after"])
    console.print(table)
    for name in ("adapter", "loss.png", "summary.json", "metrics.jsonl"):
        console.print(f"{name:14} {result / name}")


def main() -> int:
    """Run the demo."""
    shutil.rmtree(BUILD, ignore_errors=True)
    console.print(
        "SmolLM2-135M learns from the standard library's documentation. In the middle the rental ends without warning: "
        "every process gets SIGKILL and its disk is gone. Watch it go on by itself.\n"
    )
    done, story = threading.Event(), []
    thief = threading.Thread(target=release_once, args=(done, story))
    thief.start()
    followed = subprocess.run([*GPUJOB, "submit", str(HERE / "job.yaml"), "--follow"], env=ENVIRON, check=False)
    done.set()
    thief.join()
    if followed.returncode:
        return followed.returncode
    job_id = ask("ps", "--all")["jobs"][0]["id"]
    result = BUILD / "result"
    subprocess.run([*GPUJOB, "pull", job_id, str(result)], env=ENVIRON, check=True)
    console.print("\nWhat happened:")
    subprocess.run([*GPUJOB, "events", job_id], env=ENVIRON, check=True)
    console.print(*story or ["It was over before the rental could be taken away."])
    show_result(result)
    return 0 if story else 1


if __name__ == "__main__":
    sys.exit(main())
