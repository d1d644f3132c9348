"""From what a disk says to the errors of the contract."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from gpujob.core.errors import AlreadyExists, NotFound, PreconditionFailed, StoreDenied, StoreError, StoreUnavailable

_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL = {errno.ENOSPC, errno.EDQUOT}
_PASSING = {errno.EAGAIN, errno.EBUSY, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.ENOTCONN}
"""What a network disk says in a bad minute."""


def no_such_object(operation: str, key: str) -> NotFound:
    """Say that there is no object of that key."""
    return NotFound(operation, key, "there is no such object")


def already_exists(key: str) -> AlreadyExists:
    """Say that create-if-absent lost."""
    return AlreadyExists("create", key, "it is there already")


def another_version(key: str) -> PreconditionFailed:
    """Say that replace-if-match lost."""
    return PreconditionFailed("replace", key, "it is another version by now")


def without_conditions(key: str) -> StoreError:
    """Say that this store cannot decide between writers."""
    hint = "keep jobs in S3, GCS, Azure or a folder; any other store holds data only"
    return StoreError("write", key, "this store has no conditional writes", hint)


@contextmanager
def disk(operation: str, target: str) -> Iterator[None]:
    """Turn an error of the local disk into one of the contract."""
    try:
        yield
    except OSError as error:
        raise _explain(error, operation, target) from error


def _explain(error: OSError, operation: str, target: str) -> StoreError:
    cause = error.strerror or str(error)
    if error.filename is not None:
        cause = f"{cause}: {error.filename}"
    if error.errno in _FORBIDDEN:
        return StoreDenied(operation, target, cause, "give this user the right to it, or choose another place")
    if error.errno in _FULL:
        return StoreError(operation, target, cause, "make room on that disk")
    if error.errno in _PASSING:
        return StoreUnavailable(operation, target, cause)
    return StoreError(operation, target, cause)
