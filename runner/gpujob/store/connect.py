"""From a URL and an environment to obstore's clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import urlsplit

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from gpujob.core.errors import StoreDenied
from gpujob.store import urls
from gpujob.store.credentials import AZURE_CONFIG, GCS_CONFIG, NO_CHECKSUMS, S3_CONFIG

_KEY, _SECRET, _TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
_ADDRESSES = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "GOOGLE_BASE_URL", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
_REFRESH = timedelta(minutes=10)

Provider = Callable[[], dict[str, Any]]
"""Gives S3 credentials in obstore's form, when they are needed."""


@dataclass(frozen=True)
class Connection:
    """Everything a client of one bucket is made of."""

    url: str
    kind: Any
    """One of obstore's store classes."""
    config: dict[str, Any] = field(repr=False)
    extra: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def plan(cls, url: str, env: Mapping[str, str]) -> Connection:
        """Decide how to reach the store of `url`; what `env` does not say is the library's own default."""
        scheme = urls.scheme(url)
        if scheme in urls.GCS:
            return cls(url, GCSStore, _known(GCS_CONFIG, env))
        if scheme in urls.AZURE:
            return cls(url, AzureStore, _known(AZURE_CONFIG, env))
        config: dict[str, Any] = _known(S3_CONFIG, env)
        if env.get(NO_CHECKSUMS, "").lower() != "when_required":
            # The server then compares the content with the digest, which the signature needs anyway.
            config["AWS_CHECKSUM_ALGORITHM"] = "SHA256"
        if _KEY in config:
            keys = {"access_key_id": config.pop(_KEY), "secret_access_key": config.pop(_SECRET, "")}
            # Given as a provider, or a token left over in this process's environment would be mixed in.
            return cls(
                url, S3Store, config, {"credential_provider": _fixed({**keys, "token": config.pop(_TOKEN, None)})}
            )
        if config.get("AWS_SKIP_SIGNATURE", "").lower() == "true":
            return cls(url, S3Store, config)
        return _by_chain(url, config, env.get("AWS_PROFILE"))

    def client(self, retries: int, **options: Any) -> Any:
        """Make a client; raises StoreDenied when the settings cannot be used."""
        addresses = {name: str(value) for name, value in self.config.items() if name in _ADDRESSES}
        for name, address in addresses.items():
            if not _is_address(address):
                raise StoreDenied(
                    "open", self.url, f"{name} is no address", "write it as https://host or http://host:port"
                )
        options["allow_http"] = any("http://" in str(value) for value in self.config.values())
        try:
            return self.kind.from_url(
                self.url,
                config=self.config,
                client_options=options,
                retry_config={"max_retries": retries},
                **self.extra,
            )
        except (BaseError, ValueError, TypeError, OSError) as error:
            # The cause may quote a setting.
            cause = f"its settings cannot be used ({type(error).__name__})"
            raise StoreDenied("open", self.url, cause, "check the AWS_*, GOOGLE_* or AZURE_* variables") from None


def _is_address(text: str) -> bool:
    """Say whether `text` is an address; the library panics at one that is not."""
    try:
        parts = urlsplit(text)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return fine and text.isascii() and text.isprintable() and " " not in text


def _known(names: tuple[str, ...], env: Mapping[str, str]) -> dict[str, Any]:
    return {name: env[name] for name in names if env.get(name)}


def _fixed(keys: dict[str, Any]) -> Provider:
    return lambda: {**keys, "expires_at": None}


def _by_chain(url: str, config: dict[str, Any], profile: str | None) -> Connection:
    """Take credentials as AWS's own tools would: profile, login, web identity, the instance's role."""
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    session, found = Session(profile=profile or None), None
    with suppress(BotoCoreError):
        found = session.get_credentials()
    if found is None:
        hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        raise StoreDenied("open", url, "there are no AWS credentials", hint)
    if "AWS_REGION" not in config and (region := session.get_config_variable("region")):
        config["AWS_REGION"] = region
    if "AWS_ENDPOINT_URL" not in config and (endpoint := session.get_scoped_config().get("endpoint_url")):
        config["AWS_ENDPOINT_URL"] = endpoint

    def provide() -> dict[str, Any]:
        keys = found.get_frozen_credentials()
        until = datetime.now(timezone.utc) + _REFRESH
        return {
            "access_key_id": keys.access_key,
            "secret_access_key": keys.secret_key,
            "token": keys.token,
            "expires_at": until,
        }

    return Connection(url, S3Store, config, {"credential_provider": provide})
