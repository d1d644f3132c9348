"""The environment variables that open a store: what a client hands an agent, and nothing else of its environment."""

from __future__ import annotations

import configparser
import json
from collections.abc import Mapping
from pathlib import Path

from gpujob.core.errors import StoreDenied
from gpujob.store import urls

S3_CONFIG = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
    "AWS_SKIP_SIGNATURE",
)
"""What obstore's S3 understands under the same names."""

NO_CHECKSUMS = "AWS_REQUEST_CHECKSUM_CALCULATION"
"""AWS's own switch; `when_required` is for servers that refuse checksum headers."""

GCS_CONFIG = (
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_BEARER_TOKEN",
    "GOOGLE_SKIP_SIGNATURE",
    "GOOGLE_BASE_URL",
)
AZURE_CONFIG = (
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_TOKEN",
    "AZURE_STORAGE_CLIENT_ID",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_STORAGE_TENANT_ID",
    "AZURE_CLIENT_ID",
    "AZURE_CLIENT_SECRET",
    "AZURE_TENANT_ID",
    "AZURE_STORAGE_ENDPOINT",
    "AZURE_ENDPOINT",
    "AZURE_STORAGE_USE_EMULATOR",
)

_PROFILE = {
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "aws_session_token": "AWS_SESSION_TOKEN",
    "region": "AWS_REGION",
    "endpoint_url": "AWS_ENDPOINT_URL",
}


def credentials(url: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Give the variables that open the store of `url` on another machine.

    Files do not travel, so the keys of an AWS profile and of a Google service account are read out of theirs. What
    only this machine can be (an instance's role, a login in a browser) is left out: then there is no key in the result.
    """
    scheme = urls.scheme(url)
    if scheme in urls.S3:
        return _s3(environ)
    if scheme in urls.GCS:
        return _gcs(environ)
    if scheme in urls.AZURE:
        return _picked(AZURE_CONFIG, environ)
    if scheme in urls.FOLDER | urls.MEMORY:
        return {}
    prefix = f"FSSPEC_{scheme.upper()}"
    return {name: value for name, value in environ.items() if name == prefix or name.startswith(f"{prefix}_")}


def _picked(names: tuple[str, ...], environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in names if environ.get(name)}


def _s3(environ: Mapping[str, str]) -> dict[str, str]:
    given = _picked((*S3_CONFIG, NO_CHECKSUMS), environ)
    if "AWS_ACCESS_KEY_ID" in given:
        return given
    return {**_aws_profile(environ), **given}


def _aws_profile(environ: Mapping[str, str]) -> dict[str, str]:
    """Read the user's AWS profile: the credentials file's section goes before the configuration file's."""
    name = environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE") or "default"
    home = Path(environ.get("HOME", "/nonexistent"), ".aws")
    configuration = Path(environ.get("AWS_CONFIG_FILE") or home / "config")
    secret = Path(environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials")
    found = {
        **_section(configuration, name if name == "default" else f"profile {name}"),
        **_section(secret, name),
    }
    return {variable: found[key] for key, variable in _PROFILE.items() if found.get(key)}


def _section(path: Path, name: str) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(path.expanduser(), encoding="utf-8")
        return dict(parser.items(name)) if parser.has_section(name) else {}
    except (configparser.Error, UnicodeDecodeError, OSError):
        # The cause would quote the file.
        raise StoreDenied("read", str(path), "it is not a file of AWS profiles", "repair it, or set AWS_*") from None


def _gcs(environ: Mapping[str, str]) -> dict[str, str]:
    given = _picked(GCS_CONFIG, environ)
    path = given.pop("GOOGLE_APPLICATION_CREDENTIALS", None) or given.pop("GOOGLE_SERVICE_ACCOUNT", None)
    if path and "GOOGLE_SERVICE_ACCOUNT_KEY" not in given:
        given["GOOGLE_SERVICE_ACCOUNT_KEY"] = _service_account(Path(path))
    given.pop("GOOGLE_SERVICE_ACCOUNT", None)
    return given


def _service_account(path: Path) -> str:
    hint = "give the JSON key of a service account in GOOGLE_SERVICE_ACCOUNT_KEY or GOOGLE_APPLICATION_CREDENTIALS"
    try:
        text = path.read_text(encoding="utf-8")
        kind = json.loads(text).get("type")
    except (OSError, ValueError, AttributeError):
        raise StoreDenied("read", str(path), "it is not a Google key file", hint) from None
    if kind != "service_account":
        raise StoreDenied("hand over", str(path), f"a key of the type {kind!r} is this person's own login", hint)
    return text
