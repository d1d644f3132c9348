"""The check of a store: what it finds at broken ones, that real ones pass, and that nothing of it stays."""

from __future__ import annotations

import json
import shlex
import time

import pytest

from gpujob.core.errors import StoreUnavailable
from gpujob.store import check as checking
from gpujob.store.aws import client
from gpujob.store.bucket import Bucket, skew
from gpujob.store.check import check
from gpujob.store.findings import Level
from gpujob.store.memory import MemoryStore
from gpujob.store.open import open_store
from gpujob.store.trial import Trial
from gpujob.store.trials import LARGE, conditions, large, order
from support.faults import FaultyStore

S3 = pytest.mark.real


def said(text: str) -> None:
    pass


def levels(found):
    return {finding.check: finding.level.value for finding in found}


def one(findings):
    (finding,) = findings
    return finding


class Stale(MemoryStore):
    """What lies behind a cache: an overwrite is seen late."""

    def __init__(self):
        super().__init__()
        self.first = {}

    def get(self, key, *, start=0, length=None):
        data = self.first.setdefault(key, super().get(key))
        return data[start:][:length]


class Listless(MemoryStore):
    """Lists know nothing of the last minutes."""

    def list(self, prefix):
        return iter(())


class Lingering(MemoryStore):
    """Deletes later."""

    def delete(self, key):
        pass


class Rangeless(MemoryStore):
    def get(self, key, *, start=0, length=None):
        return super().get(key)


class Damaging(MemoryStore):
    def get_file(self, key, path, progress=None):
        super().get_file(key, path, progress)
        path.write_bytes(b"x" * path.stat().st_size)


class Racy(MemoryStore):
    """Keeps its conditions between writers one after the other, and not between two at once."""

    def put(self, key, data, *, if_absent=False, if_match=None):
        there = {info.key: info.etag for info in self.list(key)}
        time.sleep(0.02)
        if (if_absent and key in there) or (if_match and there.get(key) != if_match):
            return super().put(key, data, if_absent=if_absent, if_match=if_match)
        return super().put(key, data)


@pytest.mark.parametrize(
    ("store", "wrong"),
    [
        (Stale(), "older bytes"),
        (Listless(), "not in the list"),
        (Lingering(), "still there"),
        (Rangeless(), "range"),
    ],
)
def test_a_store_that_shows_something_else(store, wrong):
    finding = one(order(Trial(store, said)))
    assert (finding.level, wrong in finding.text) == (Level.ERROR, True)


def test_writers_at_once_find_out_what_one_after_the_other_do_not():
    finding = one(conditions(Trial(Racy(), said)))
    assert (finding.level, finding.text) == (Level.ERROR, "several writers at once were told that they won")


def test_a_store_without_conditions_is_for_data_only(tmp_path):
    finding = one(conditions(Trial(open_store(f"local://{tmp_path}", {}), said)))
    assert (finding.level, "not jobs" in finding.text) == (Level.ERROR, True)


def test_answers_that_were_lost_decide_nothing():
    store = FaultyStore(MemoryStore())
    store.fail("put", StoreUnavailable("write", "x", "no answer"), key="create/", times=100, after=True)
    assert one(conditions(Trial(store, said))).level is Level.OK


def test_damage_is_seen():
    assert one(large(Trial(Damaging(), said))).level is Level.ERROR


@pytest.mark.parametrize(("ahead", "level"), [(0.5, "ok"), (-59, "ok"), (61, "warn"), (-899, "warn"), (901, "error")])
def test_a_wrong_clock(ahead, level):
    assert skew(ahead).level.value == level


def test_a_folder(tmp_path):
    found = check(str(tmp_path / "new"), {})
    assert set(levels(found).values()) == {"ok"}
    assert list(open_store(str(tmp_path / "new")).list("")) == []


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), RuntimeError("a bug")], ids=repr)
@pytest.mark.parametrize(
    ("method", "at"),
    [("put", 1), ("put", 9), ("put", 23), ("put_file", 1), ("get_file", 1), ("delete", 4), ("list", 3)],
)
@pytest.mark.parametrize("after", [True, False])
def test_nothing_stays_however_it_ends(monkeypatch, failure, method, at, after):
    store = FaultyStore(MemoryStore())
    store.fail(method, failure, at=at, after=after)
    monkeypatch.setattr(checking, "open_store", lambda url, env: store)
    with pytest.raises(type(failure)):
        check("/folder", {})
    assert list(store.inner.list("")) == []


def test_a_store_that_goes_away_in_the_middle(monkeypatch):
    store = FaultyStore(MemoryStore())
    for method in ("put", "delete"):
        store.fail(method, StoreUnavailable("write", "x", "no answer", "wait"), at=5, times=10_000)
    monkeypatch.setattr(checking, "open_store", lambda url, env: store)
    found = levels(check("/folder", {}))
    assert {name: found[name] for name in ("order", "conditional writes", "clean-up")} == {
        "order": "error",
        "conditional writes": "error",
        "clean-up": "warn",
    }


@S3
def test_seaweedfs_passes(s3):
    url, heard = s3.url(), []
    found = check(url, s3.env, say=heard.append)
    assert {name for name, level in levels(found).items() if level != "ok"} == {"lifecycle"}
    assert [finding.check for finding in found] == [
        *("clock", "rights", "rights", "order", "conditional writes", "large objects", "speed"),
        *("lifecycle", "versioning", "credentials"),
    ]
    assert any(text.startswith("sending") for text in heard)
    assert list(open_store(url, s3.env).list("")) == []


@S3
def test_moto_passes_and_takes_the_advice(moto):
    client("s3", moto.env).create_bucket(Bucket="versioned")
    client("s3", moto.env).put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
    url = "s3://versioned/some/store"
    found = check(url, moto.env)
    assert {name for name, level in levels(found).items() if level != "ok"} == {"lifecycle", "versioning"}
    left = client("s3", moto.env).list_object_versions(Bucket="versioned")
    assert "Versions" not in left, "what was tried leaves no old version"
    assert "DeleteMarkers" not in left
    (advice,) = {finding.hint for finding in found if finding.check in ("lifecycle", "versioning")}
    rules = json.loads(shlex.split(advice)[-1])
    client("s3", moto.env).put_bucket_lifecycle_configuration(Bucket="versioned", LifecycleConfiguration=rules)
    assert {finding.level for finding in Bucket(url, moto.env).rules()} == {Level.OK}


@S3
def test_the_servers_clock_is_asked_even_where_nothing_is_allowed(s3):
    denied = {**s3.env, "AWS_SECRET_ACCESS_KEY": "wrong"}
    for ahead, level in ((0, "ok"), (-100, "warn"), (1000, "error")):
        assert one(Bucket(s3.url(), denied).clock(lambda ahead=ahead: time.time() + ahead)).level.value == level


@S3
@pytest.mark.parametrize(
    ("action", "also"),
    [
        ("s3:PutObject", ""),
        ("s3:GetObject", ""),
        ("s3:ListBucket", ""),
        ("s3:DeleteObject", "clean-up"),
    ],
)
def test_a_missing_right_is_named(lender, action, also):
    env = lender.limited(
        {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}, {"Effect": "Deny", "Action": action, "Resource": "*"}
    )
    found = check(lender.url(), env)
    (missing,) = [finding for finding in found if finding.level is Level.ERROR]
    assert missing.check == "rights"
    assert missing.text.startswith(f"{action} is missing: ")
    assert action in missing.hint
    assert ("clean-up" in levels(found)) == bool(also)
    assert levels(found)["the rest"] == "warn"


@S3
def test_an_upload_that_cannot_be_given_up(lender):
    action = "s3:AbortMultipartUpload"
    env = lender.limited(
        {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}, {"Effect": "Deny", "Action": action, "Resource": "*"}
    )
    finding = one(Bucket(lender.url(), env).uploads("key"))
    assert (finding.level, finding.text.startswith(f"{action} is missing")) == (Level.ERROR, True)


@S3
@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong-secret"}, "SignatureDoesNotMatch"),
        ({"AWS_ACCESS_KEY_ID": "unknown-key"}, "InvalidAccessKeyId"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "cannot be reached"),
        ({"AWS_ENDPOINT_URL": "nonsense"}, "cannot be used"),
        ({"bucket": "no-such-bucket"}, "there is no such bucket"),
    ],
)
def test_a_store_nobody_can_use_is_one_finding(s3, change, cause):
    bucket = change.pop("bucket", s3.bucket)
    env = {**s3.env, **change}
    errors = [finding for finding in check(f"s3://{bucket}/x", env) if finding.level is Level.ERROR]
    assert [(each.check, cause in each.text) for each in errors] == [("access", True)]
    assert errors[0].hint
    assert all(env["AWS_SECRET_ACCESS_KEY"] not in repr(each) for each in errors)


@S3
def test_an_interrupted_upload_leaves_no_part(s3):
    url = s3.url()
    bucket, moved = Bucket(url, s3.env), []

    def interrupting(text: str) -> None:
        moved.append(text)
        if text.startswith("sending") and len(moved) > 1:
            raise KeyboardInterrupt

    trial = Trial(open_store(url, s3.env), interrupting)
    with pytest.raises(KeyboardInterrupt), trial.cleaning_up(bucket):
        list(large(trial))
    assert list(trial.store.list("")) == []
    assert "Uploads" not in s3.client().list_multipart_uploads(Bucket=s3.bucket, Prefix=bucket.place.root)


@S3
def test_the_sweep_removes_uploads_that_broke_off(s3):
    url = s3.url()
    prefix = url.split("/", 3)[3]
    s3.client().create_multipart_upload(Bucket=s3.bucket, Key=f"{prefix}/probe-1/large")
    s3.client().create_multipart_upload(Bucket=s3.bucket, Key=f"{prefix}/jobs/large")
    Bucket(url, s3.env).sweep("probe-1/")
    left = s3.client().list_multipart_uploads(Bucket=s3.bucket, Prefix=prefix)["Uploads"]
    assert [each["Key"] for each in left] == [f"{prefix}/jobs/large"]


def test_credentials_that_stay_here_are_told():
    finding = one(checking._travelling("s3://bucket/x", {"AWS_REGION": "us-east-1"}, {}))
    assert (finding.level, "cannot go along" in finding.text) == (Level.ERROR, True)


@S3
def test_a_role_is_tried(lender):
    none = {**lender.with_role, "GPUJOB_STORE_ROLE": "arn:aws:iam::role/none"}
    role = [one(checking._travelling(lender.url(), lender.env, environ)) for environ in (lender.with_role, none)]
    assert [finding.level for finding in role] == [Level.OK, Level.ERROR]
    assert "reach its own job" in role[0].text


def test_large_is_more_than_one_part():
    from gpujob.store import cloud

    assert LARGE > cloud._PART
