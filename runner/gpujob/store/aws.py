"""AWS's own client, for what no store method does: temporary credentials, and what a bucket says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpujob.core.errors import StoreDenied, StoreUnavailable

_CONNECT, _READ = 10, 30
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """What a service answered: values, or the code and message of a refusal; headers in any case, in lower case."""

    values: dict[str, Any]
    headers: dict[str, str]
    code: str = ""
    message: str = ""


def client(service: str, env: Mapping[str, str]) -> Any:
    """Give a boto3 client of `service` that uses the keys, region and address of `env`, not this process's own.

    Without keys in `env` they are looked for as AWS's own tools do: a profile, an instance's role.
    """
    import boto3
    from botocore import UNSIGNED
    from botocore.config import Config

    virtual, unsigned = (
        env.get(name, "").lower() == "true" for name in ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "AWS_SKIP_SIGNATURE")
    )
    session = boto3.Session(
        aws_access_key_id=env.get("AWS_ACCESS_KEY_ID"),
        aws_secret_access_key=env.get("AWS_SECRET_ACCESS_KEY"),
        aws_session_token=env.get("AWS_SESSION_TOKEN"),
        region_name=env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or "us-east-1",
        profile_name=None if "AWS_ACCESS_KEY_ID" in env else env.get("AWS_PROFILE") or None,
    )
    config = Config(
        connect_timeout=_CONNECT,
        read_timeout=_READ,
        retries={"total_max_attempts": _TRIES, "mode": "standard"},
        signature_version=UNSIGNED if unsigned else None,
        s3={"addressing_style": "virtual" if virtual else "path"},
    )
    return session.client(service, endpoint_url=endpoint(service, env), config=config)


def endpoint(service: str, env: Mapping[str, str]) -> str | None:
    """Give the address of a service that is not AWS's own."""
    return env.get(f"AWS_ENDPOINT_URL_{service.upper()}") or env.get("AWS_ENDPOINT_URL") or None


def ask(target: str, act: Callable[[], dict[str, Any]]) -> Answer:
    """Make one request; a refusal is an answer. Raises StoreUnavailable, and StoreDenied for unusable settings."""
    from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError

    try:
        values = act()
    except ClientError as error:
        told, about = error.response.get("Error", {}), error.response.get("ResponseMetadata", {})
        code, message = str(told.get("Code", "unknown")), str(told.get("Message", ""))
        return Answer({}, about.get("HTTPHeaders", {}), code, message)
    except (ConnectionError, HTTPClientError):
        hint = "check the network and AWS_ENDPOINT_URL"
        raise StoreUnavailable("ask", target, "the server cannot be reached or broke off", hint) from None
    except (BotoCoreError, ValueError) as error:
        # The cause may quote a setting.
        cause = f"the settings cannot be used ({type(error).__name__})"
        raise StoreDenied("ask", target, cause, "check the AWS_* variables") from None
    return Answer(values, values["ResponseMetadata"]["HTTPHeaders"])
