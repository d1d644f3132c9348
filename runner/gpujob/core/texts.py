"""The kinds of text in job.yaml: names, paths, commands."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

from gpujob.core.units import Allowed

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,46}[a-z0-9])?")
_HOST_KEY = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_name(value: str) -> str:
    """Give a job's name back; raises ValueError when it cannot be one."""
    if not _NAME.fullmatch(value):
        raise ValueError("a name is 1 to 48 lower-case letters, digits and hyphens, with no hyphen at either end")
    return value


def _check_env_name(value: str) -> str:
    if not _ENV_NAME.fullmatch(value):
        raise ValueError("an environment variable's name is letters, digits and underscores, and starts with no digit")
    if value.startswith("GPUJOB_"):
        raise ValueError("names that start with GPUJOB_ are gpujob's own")
    return value


def _check_text(value: str) -> str:
    if "\0" in value:
        raise ValueError("a text cannot hold a NUL character")
    return value


def _check_host_key(value: str) -> str:
    if not _HOST_KEY.fullmatch(value):
        raise ValueError("a host key is SHA256: and 43 characters, as `ssh-keygen -lf` shows it")
    return value


def _check_absolute(value: str) -> str:
    if not value.startswith("/") or not value.strip("/"):
        raise ValueError("must be an absolute path, below /")
    return value.rstrip("/")


JobName = Annotated[str, AfterValidator(check_name), Allowed("lower-case letters, digits and hyphens")]
EnvName = Annotated[str, AfterValidator(_check_env_name), Allowed("a variable's name")]
Verbatim = Annotated[str, AfterValidator(_check_text)]
"""A text kept as it is, spaces and all."""
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1), AfterValidator(_check_text)]
"""A text that says something."""
Folder = Annotated[Text, Allowed("a folder")]
File = Annotated[Text, Allowed("a file")]
AbsolutePath = Annotated[Text, AfterValidator(_check_absolute), Allowed("an absolute path")]
HostKey = Annotated[Text, AfterValidator(_check_host_key), Allowed("a fingerprint such as SHA256:…")]
Shell = Annotated[Text, Allowed("a shell command")]
