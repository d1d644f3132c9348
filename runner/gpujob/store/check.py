"""Prove that a store can hold jobs, before anything depends on it: `gpujob store check`.

Everything that is written lies below one fresh `probe-…/` prefix and is deleted in the end, however it ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from gpujob.core.errors import StoreError
from gpujob.store import urls
from gpujob.store.bucket import Bucket, skew
from gpujob.store.credentials import credentials
from gpujob.store.findings import Finding, Level, error, ok, warn
from gpujob.store.open import open_store
from gpujob.store.rights import rights
from gpujob.store.scoped import EXPIRATION, ROLE, SHORTEST, scoped_credentials
from gpujob.store.trial import Say, Trial
from gpujob.store.trials import conditions, large, order

_AGAIN = "try again; if it stays so, ask who runs the store"
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE")


def check(
    url: str, environ: Mapping[str, str], now: Callable[[], float] = time.time, say: Say = lambda text: None
) -> tuple[Finding, ...]:
    """Try the store of `url` with the credentials an agent would be given; give what was found, in order.

    Raises StoreError where there can be no such store at all. `say` is told what is being tried.
    """
    env = credentials(url, environ)
    trial = Trial(open_store(url, env), say)
    bucket = Bucket(url, env) if urls.scheme(url) in urls.S3 else None
    found: list[Finding] = []
    try:
        with trial.cleaning_up(bucket):
            for finding in _all(trial, bucket, now):
                found.append(finding)
    except StoreError as failure:
        found.append(
            error("access", failure.cause, failure.hint or "try again; if it stays so, ask who runs the store")
        )
    if bucket:
        found += _travelling(url, env, environ)
    if trial.left:
        hint = f"delete everything below {trial.store.url}/{trial.prefix}"
        found.append(warn("clean-up", f"not all that was written could be deleted: {trial.left.cause}", hint))
    return tuple(found)


def _all(trial: Trial, bucket: Bucket | None, now: Callable[[], float]) -> Iterator[Finding]:
    trial.say("comparing clocks")
    if bucket:
        yield from bucket.clock(now)
    trial.say("trying what is allowed")
    allowed = True
    for finding in rights(trial):
        allowed = allowed and finding.level is Level.OK
        yield finding
    if allowed:
        yield from _trials(trial, bucket, now)
    else:
        hint = "give the missing rights, and check again"
        yield warn("the rest", "order, conditional writes, large objects and speed were not tried", hint)
    if bucket:
        trial.say("looking at the bucket's rules")
        yield from bucket.rules()


def _trials(trial: Trial, bucket: Bucket | None, now: Callable[[], float]) -> Iterator[Finding]:
    if bucket:
        yield from bucket.uploads(trial.key("upload"))
    else:
        yield from _clock_of_objects(trial, now)
    for name, act in (("order", order), ("conditional writes", conditions), ("large objects", large)):
        trial.say(f"trying {name}")
        try:
            yield from act(trial)
        except StoreError as failure:
            yield error(name, f"cannot {failure.operation}: {failure.cause}", failure.hint or _AGAIN)


def _clock_of_objects(trial: Trial, now: Callable[[], float]) -> Iterator[Finding]:
    """Compare clocks by the time a new object is given."""
    key, before = trial.key("clock"), now()
    trial.store.put(key, b"")
    if modified := trial.store.head(key).modified:
        yield skew(modified - (before + now()) / 2)


def _travelling(url: str, env: Mapping[str, str], environ: Mapping[str, str]) -> Iterator[Finding]:
    """Say what a rental would get to open the store with."""
    if not any(name in env for name in _KEYS):
        hint = "give a key in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or in a profile"
        yield error("credentials", "they are this computer's own, and cannot go along to a rental", hint)
    elif not environ.get(ROLE):
        yield ok("credentials", f"a rental gets this key as it is; a role in {ROLE} would limit it to its job")
    else:
        try:
            until = scoped_credentials(url, "check", environ, SHORTEST)[EXPIRATION]
        except StoreError as failure:
            yield error("credentials", f"{failure.target}: {failure.cause}", failure.hint)
        else:
            yield ok("credentials", f"a rental gets ones that reach its own job and expire (tried: until {until})")
