"""The job's one mutable object, moved by compare-and-swap alone.

Every version carries a fresh nonce. It keeps two versions from ever being byte-equal (many stores' ETags are content
hashes, so an equal version would let a stale writer in), and it tells a writer whose answer was lost whether it won.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from pydantic import ValidationError

from gpujob.core.errors import Damaged, PreconditionFailed, StoreError, StoreUnavailable
from gpujob.core.layout import JobKeys
from gpujob.core.records import Head
from gpujob.store.protocol import Store

_ROUNDS = 100


def create(store: Store, job_id: str) -> None:
    """Write the first head; raises AlreadyExists when the job has one."""
    first = Head(job_id=job_id, nonce=_nonce())
    store.put(JobKeys(job_id).head, first.encode(), if_absent=True)


def read(store: Store, job_id: str) -> Head:
    """Read the head; raises NotFound when the job has none, Damaged when it cannot be read."""
    data = store.get(JobKeys(job_id).head)
    try:
        return Head.decode(data)
    except ValidationError as error:
        raise Damaged("read", f"the head of job {job_id}", f"{error.error_count()} fields are wrong") from error


def update(store: Store, job_id: str, change: Callable[[Head], Head]) -> Head:
    """Swap the head for `change(head)`, again on the newer one when another writer was faster; give the new head.

    `change` may be called several times and, after a lost answer, on a head that already holds its effect: it must
    give such a head back as it is. It may raise (Fenced) to give up; then nothing is written.
    """
    key = JobKeys(job_id).head
    failure: StoreError | None = None
    for _ in range(_ROUNDS):
        # The tag is read before the content: if it still matches at the put, the content was that version.
        etag = store.head(key).etag
        old = read(store, job_id)
        new = change(old)
        if new is old:
            return old
        new = new.model_copy(update={"nonce": _nonce()})
        try:
            store.put(key, new.encode(), if_match=etag)
        except (PreconditionFailed, StoreUnavailable) as error:
            failure = error
            if read(store, job_id).nonce != new.nonce:
                continue
        return new
    raise StoreUnavailable("update", f"the head of job {job_id}", f"lost {_ROUNDS} swaps in a row") from failure


def _nonce() -> str:
    return secrets.token_hex(8)
