"""Which rights the credentials have, by the name the provider gives each."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

from gpujob.core.errors import StoreDenied
from gpujob.store import urls
from gpujob.store.findings import POLICY, Finding, error, ok
from gpujob.store.trial import Trial

_S3 = ("s3:PutObject", "s3:GetObject", "s3:GetObject", "s3:ListBucket", "s3:DeleteObject")
_GCS = tuple(f"storage.objects.{right}" for right in ("create", "get", "get", "list", "delete"))
_AZURE = tuple(f"blobs/{right}" for right in ("write", "read", "read", "read (SAS: l)", "delete"))
_PLAIN = ("write", "read", "describe", "list", "delete")


def rights(trial: Trial) -> Iterator[Finding]:
    """Try every operation a job needs; say which rights are missing.

    Raises StoreUnavailable when nobody answers, StoreDenied when nothing at all is allowed.
    """
    store, key = trial.store, trial.key("rights")
    write, read, look, enumerate_, delete = _names(store.url)
    refused = _refused({write: lambda: store.put(key, secrets.token_bytes(16))})
    if refused:
        trial.forget(key)  # so there is nothing to read either
    else:
        refused = _refused({read: lambda: store.get(key)}) or _refused({look: lambda: store.head(key)})
    refused |= _refused({enumerate_: lambda: list(store.list(trial.prefix)), delete: lambda: store.delete(key)})
    if {write, enumerate_, delete} <= set(refused):
        raise refused[write]
    for name, denied in refused.items():
        yield error("rights", f"{name} is missing: {denied.cause}", f"allow {name} for {store.url}; {POLICY}")
    if not refused:
        yield ok("rights", ", ".join(dict.fromkeys((write, read, look, enumerate_, delete))))


def _refused(acts: dict[str, Callable[[], object]]) -> dict[str, StoreDenied]:
    refused = {}
    for name, act in acts.items():
        try:
            act()
        except StoreDenied as denied:
            refused[name] = denied
    return refused


def _names(url: str) -> tuple[str, ...]:
    scheme = urls.scheme(url)
    kinds = ((urls.S3, _S3), (urls.GCS, _GCS), (urls.AZURE, _AZURE))
    return next((names for schemes, names in kinds if scheme in schemes), _PLAIN)
