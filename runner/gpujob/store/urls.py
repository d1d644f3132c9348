"""What the URL of a store says, without opening anything."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gpujob.core.errors import StoreError

FOLDER = frozenset({"", "file"})
MEMORY = frozenset({"memory"})
S3 = frozenset({"s3", "s3a"})
GCS = frozenset({"gs"})
AZURE = frozenset({"az", "azure", "adl", "abfs", "abfss"})
CLOUD = S3 | GCS | AZURE

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.:-]*)://")
_USER_INFO = re.compile(r"(?<=://)[^/]*@")


def scheme(url: str) -> str:
    """Give the scheme of a URL in lower case; a plain path has none."""
    match = _SCHEME.match(url)
    return match[1].lower() if match else ""


def is_local(url: str) -> bool:
    """Say whether only this machine can reach the store of `url`."""
    return scheme(url) in FOLDER | MEMORY


def folder(url: str) -> Path:
    """Give the folder that a plain path or a `file://` URL names."""
    if not scheme(url):
        return Path(url)
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        hint = f"for a folder of this machine write file:///{parts.netloc}{parts.path}, with three slashes"
        raise StoreError("open", url, f"it names the machine {parts.netloc}", hint)
    return Path(unquote(parts.path))


def without_credentials(url: str) -> str:
    """Give `url` as it may be shown: without user, password and query, where tokens travel."""
    return _USER_INFO.sub("", url).partition("?")[0] if scheme(url) not in FOLDER else url
