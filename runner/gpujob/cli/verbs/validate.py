"""gpujob validate: everything that is wrong with a job.yaml, at once."""

from __future__ import annotations

from pathlib import Path

from gpujob.cli.call import Call
from gpujob.cli.options import spec_argument, verb


@verb("validate", "validate", "validate jobs/qlora.yaml --json")
@spec_argument
def command(call: Call, file: Path) -> None:
    """Check job.yaml and say everything that is wrong with it.

    Each problem comes with line, column, field and what is allowed there. Nothing is sent and nothing is started.
    Exits with 10 when something is wrong.
    """
    from gpujob import jobfile

    spec = jobfile.load(file, call.environ)
    call.output.result({"valid": True, "path": str(file), "name": spec.name}, f"{file}: fine, a job named {spec.name}")
