"""A job's secret values and credentials: in one file only its owner can read, from submit until the job is over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from pydantic import Field, ValidationError

from gpujob import files
from gpujob.core.errors import Damaged, UsageError
from gpujob.core.layout import HomePaths
from gpujob.core.records import Record
from gpujob.runtime.environ import machine_environ
from gpujob.store.open import credentials


class JobSecrets(Record):
    """What must be in no journal, log, argument or store.

    `values` are the secrets job.yaml names; `store_env` opens the store; `machine_env` is what programs of this
    machine saw when the job was submitted (a proxy's address may hold a password).
    """

    values: dict[str, str] = Field(default_factory=dict, repr=False)
    store_env: dict[str, str] = Field(default_factory=dict, repr=False)
    machine_env: dict[str, str] = Field(default_factory=dict, repr=False)


def gather(
    names: Iterable[str], store: str, environ: Mapping[str, str], env_file: Mapping[str, str] | None = None
) -> JobSecrets:
    """Take a job's secrets, and what opens its store, from --env-file, else the environment.

    Raises UsageError naming all secrets that are missing, StoreDenied for a key file that cannot be read.
    """
    given = {**environ, **(env_file or {})}
    wanted = tuple(names)
    if missing := [name for name in wanted if not given.get(name)]:
        hint = "set it in the environment, or put it into a file and give that with --env-file"
        raise UsageError("find", f"the secret {', '.join(missing)}", "it has no value", hint)
    return JobSecrets(
        values={name: given[name] for name in wanted},
        store_env=credentials(store, given),
        machine_env=machine_environ(environ),
    )


def save(home: HomePaths, job_id: str, secrets: JobSecrets) -> None:
    """Write a job's secrets, for the owner's eyes alone."""
    path = home.secrets(job_id)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    files.write(path, secrets.encode(), mode=0o600)


def load(home: HomePaths, job_id: str) -> JobSecrets:
    """Read a job's secrets; none when there is no file. Raises Damaged, without the content."""
    path = home.secrets(job_id)
    try:
        return JobSecrets.decode(path.read_bytes())
    except FileNotFoundError:
        return JobSecrets()
    except ValidationError:
        # The cause would quote the file.
        raise Damaged("read", str(path), "it is not a file of secrets", "submit the job again") from None


def remove(home: HomePaths, job_id: str) -> None:
    """Delete a job's secrets; none there is fine."""
    with suppress(FileNotFoundError):
        home.secrets(job_id).unlink()
