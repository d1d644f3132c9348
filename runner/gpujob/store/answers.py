"""From what a cloud answers to the errors of the contract, without what must not be shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from gpujob.core.errors import StoreDenied, StoreError, StoreUnavailable
from gpujob.store.failures import no_such_object

_STATUS = re.compile(r"status code: (\d{3})[^:]*")
_CODE = re.compile(r"<Code>([^<]{1,100})</Code>|\"(?:status|reason)\": *\"(\w{1,100})\"|\(code: (\w{1,100})\)")
_MESSAGE = re.compile(r"<Message>([^<]{1,300})|\"message\": *\"([^\"]{1,300})")
_SILENT = re.compile(r"HTTP error|timed? ?out|error (sending|decoding|reading)|connection|incomplete", re.IGNORECASE)

_HIDING = re.compile(r"the server answers 403( AccessDenied\b.*)?", re.DOTALL)

_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound"}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken"}
_FORBIDDEN = "AccessDenied"
_PASSING = {
    *("RequestTimeout", "BadDigest", "XAmzContentSHA256Mismatch", "OperationAborted", "SlowDown"),
    *("InternalError", "ServiceUnavailable"),
}
"""Said with a status that would mean for ever, or with none (when deleting), and meant for now."""
_FOR_EVER = {501, 505}
_FOR_NOW = {408, 409, 425, 429}


@contextmanager
def asking(operation: str, key: str, *, conflict: StoreError | None = None) -> Iterator[None]:
    """Turn what obstore raises into an error of the contract; `conflict` is what a lost condition means.

    The library's own error is not kept as the cause: it quotes request addresses and answers, which hold tokens.
    """
    try:
        yield
    except FileNotFoundError as error:
        failure: StoreError = _missing(operation, key, str(error))
    except (PreconditionError, AlreadyExistsError) as error:
        failure = conflict or _explain(operation, key, str(error))
    except (PermissionDeniedError, UnauthenticatedError) as error:
        failure = _denied(operation, key, str(error))
    except NotImplementedError:
        failure = StoreError(operation, key, "the server cannot do that")
    except (BaseError, OSError) as error:
        failure = _explain(operation, key, str(error))
    else:
        return
    raise failure from None


def is_beyond_end(error: BaseError) -> bool:
    """Say whether a ranged get failed because the range starts at or behind the object's end."""
    return _status(str(error)) == 416


def may_be_missing(denied: StoreDenied) -> bool:
    """Say whether a refusal may hide that there is no such object: S3 tells that to nobody who may not list all."""
    return _HIDING.fullmatch(denied.cause) is not None


def _explain(operation: str, key: str, text: str) -> StoreError:
    status, code, spoken = _status(text), _code(text), _spoken(text)
    if code in _NO_BUCKET:
        return _missing(operation, key, text)
    if code in _EXPIRED or code == _FORBIDDEN or status in (401, 403):
        return _denied(operation, key, text)
    if "redirect" in text:
        return StoreDenied(operation, key, "the bucket is in another region", "set AWS_REGION to the bucket's region")
    if code in _PASSING or status in _FOR_NOW or (status >= 500 and status not in _FOR_EVER):
        return StoreUnavailable(operation, key, spoken)
    if not status and _SILENT.search(text):
        return StoreUnavailable(operation, key, "the server cannot be reached or broke off", "check the network")
    return StoreError(operation, key, spoken)


def _missing(operation: str, key: str, text: str) -> StoreError:
    if _code(text) in _NO_BUCKET or operation in ("write", "upload"):
        return StoreDenied(operation, key, "there is no such bucket", "create it, or correct `store:`")
    return no_such_object(operation, key)


def _denied(operation: str, key: str, text: str) -> StoreDenied:
    cause = _spoken(text) if _status(text) or _code(text) else "there are no valid credentials"
    return StoreDenied(operation, key, cause, "check the credentials, and what they may do in this bucket")


def _status(text: str) -> int:
    match = _STATUS.search(text)
    return int(match[1]) if match else 0


def _code(text: str) -> str:
    match = _CODE.search(text)
    return next(filter(None, match.groups())) if match else ""


def _spoken(text: str) -> str:
    """Give the little of an answer that is safe to show: its status, its code and its message."""
    status, message = _STATUS.search(text), _MESSAGE.search(text)
    said = " ".join(part for part in (status[1] if status else "", _code(text)) if part)
    if message:
        said = f"{said}: {message[1] or message[2]}" if said else (message[1] or message[2])
    return f"the server answers {said}" if said else "the server refuses, or answers what nobody understands"
