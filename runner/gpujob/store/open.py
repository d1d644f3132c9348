"""From a URL to a store, with the retry wrapper around it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gpujob.core.errors import StoreDenied, StoreError
from gpujob.store import urls
from gpujob.store.credentials import credentials
from gpujob.store.local import LocalStore
from gpujob.store.memory import shared_memory
from gpujob.store.protocol import Store
from gpujob.store.retry import Retrying
from gpujob.store.urls import is_local

__all__ = ["credentials", "is_local", "open_store"]

_KNOWN = "a folder, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix"
_UNVERIFIED = {"sftp", "ssh"}


def open_store(url: str, env: Mapping[str, str] | None = None) -> Store:
    """Open the store of a folder or a URL. No request is made yet; a folder must be one that can be written.

    `env` holds credentials as environment variables; without it they are the process's own. Raises StoreDenied or
    StoreError when there can be no such store.
    """
    # One of the few places that read it: what AWS's own tools would see is the default.
    return Retrying(_open(url, env or os.environ))


def _open(url: str, env: Mapping[str, str]) -> Store:
    scheme = urls.scheme(url)
    if scheme in urls.FOLDER:
        return LocalStore(_writable(urls.folder(url)))
    if scheme in urls.MEMORY:
        return shared_memory(url)
    if scheme in urls.CLOUD:
        from gpujob.store.cloud import CloudStore

        return CloudStore(url, env)
    return _by_fsspec(url, scheme, env)


def _writable(folder: Path) -> Path:
    there = folder.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise StoreDenied("open", str(folder), f"{there} is a file", "choose another folder in `store:`")
    if not os.access(there, os.W_OK | os.X_OK):
        raise StoreDenied(
            "open",
            str(folder),
            f"{there} cannot be written",
            "give this user the right, or choose another folder in `store:`",
        )
    return folder


def _by_fsspec(url: str, scheme: str, env: Mapping[str, str]) -> Store:
    shown = urls.without_credentials(url)
    if scheme in _UNVERIFIED:
        hint = f"mount it and name the folder, or use {_KNOWN}"
        raise StoreError("open", shown, "the library for it does not check who the server is", hint)
    from fsspec import get_filesystem_class

    from gpujob.store.anyurl import AnyUrlStore

    try:
        get_filesystem_class(scheme.rpartition("::")[2])
    except ValueError:
        raise StoreError("open", shown, f"there is no such kind of store as {scheme}://", f"choose {_KNOWN}") from None
    except ImportError as error:
        raise StoreError("open", shown, str(error), "install it, here and in the image") from error
    return AnyUrlStore(url, env)
