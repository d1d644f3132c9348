"""Where a store answers, as far as its URL and the variables that open it say."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from gpujob.store import urls


def endpoint(url: str, env: Mapping[str, str]) -> str:
    """Give the address of a store as `https://host` or `http://host:port`; empty when that is not known."""
    scheme = urls.scheme(url)
    if scheme in urls.S3:
        region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or "us-east-1"
        given = env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL")
        return _address(given or f"https://s3.{region}.amazonaws.com")
    if scheme in urls.GCS:
        return _address(env.get("GOOGLE_BASE_URL") or "https://storage.googleapis.com")
    if scheme in urls.AZURE:
        given = env.get("AZURE_STORAGE_ENDPOINT") or env.get("AZURE_ENDPOINT")
        account = env.get("AZURE_STORAGE_ACCOUNT_NAME")
        return _address(given or (f"https://{account}.blob.core.windows.net" if account else ""))
    return ""


def _address(url: str) -> str:
    """Leave out all but scheme, host and port: the rest may hold a password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else ""
