"""The whole story on this machine: train, lose the rental without warning in the middle, go on by itself.

Run by `make demo`. It submits job.yaml, follows it, and once a third of the steps are durable it kills every process
of the attempt with SIGKILL and deletes the folder that plays the rented disk, as a released rental would. `make prove`
then trains once more undisturbed and compares every weight and every line of the log.
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


def prove(result: Path) -> bool:
    """Train once more with nobody in the way, and compare every weight and every line of the log."""
    import torch
    from safetensors.torch import load_file

    environ = {**ENVIRON, "GPUJOB_HOME": str(BUILD / "calm-home")}
    console.print("\nThe same job once more, undisturbed:")
    subprocess.run([*GPUJOB, "submit", str(HERE / "job.yaml"), "--follow"], env=environ, check=True)
    calm = BUILD / "calm-result"
    subprocess.run([*GPUJOB, "pull", "smollm2-sft", str(calm)], env=environ, check=True, stdout=subprocess.DEVNULL)
    ours, theirs = (load_file(each / "adapter" / "adapter_model.safetensors") for each in (result, calm))
    same = sum(torch.equal(ours[name], theirs[name]) for name in ours)
    logs = [lines_without_time(each / "metrics.jsonl") for each in (result, calm)]
    console.print(
        f"Tensors equal bit for bit: {same} of {len(theirs)}. Logs of loss and norms equal: {logs[0] == logs[1]}."
    )
    return same == len(theirs) and logs[0] == logs[1]


def lines_without_time(path: Path) -> list[dict]:
    """Read a metrics log without what a clock wrote."""
    lines = map(json.loads, path.read_text().splitlines())
    return [{key: value for key, value in line.items() if key not in ("at", "seconds")} for line in lines]


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
    if "--prove" in sys.argv and not prove(result):
        return 1
    return 0 if story else 1


if __name__ == "__main__":
    sys.exit(main())
