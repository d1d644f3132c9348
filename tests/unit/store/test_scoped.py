"""What a rental is given to open the store with: its own job, the shared blobs, and a time."""

from __future__ import annotations

import os
import time
import traceback
from datetime import datetime

import pytest

from gpujob.core.errors import AlreadyExists, NotFound, StoreDenied
from gpujob.core.layout import JobKeys
from gpujob.store import aws, scoped
from gpujob.store.aws import Answer
from gpujob.store.credentials import credentials
from gpujob.store.open import open_store
from gpujob.store.scoped import EXPIRATION, ROLE, policy, scoped_credentials

ENV = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "never-to-be-printed", ROLE: "arn:aws:iam::1:role/gpujob"}


def test_the_policy_is_exactly_this():
    assert policy("s3://my-bucket/team/gpujob", "bot-k3v9qd") == {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:DeleteObject"],
                "Resource": "arn:aws:s3:::my-bucket/team/gpujob/jobs/bot-k3v9qd/*",
            },
            {
                "Effect": "Allow",
                "Action": ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"],
                "Resource": "arn:aws:s3:::my-bucket/team/gpujob/blobs/*",
            },
            {
                "Effect": "Allow",
                "Action": "s3:ListBucket",
                "Resource": "arn:aws:s3:::my-bucket",
                "Condition": {"StringLike": {"s3:prefix": ["team/gpujob/jobs/bot-k3v9qd/*", "team/gpujob/blobs/*"]}},
            },
            {
                "Effect": "Deny",
                "Action": ["s3:PutObject", "s3:DeleteObject"],
                "Resource": "arn:aws:s3:::my-bucket/team/gpujob/jobs/bot-k3v9qd/job.json",
            },
        ],
    }


def test_a_store_at_the_top_of_its_bucket():
    resources = [each["Resource"] for each in policy("s3://my-bucket/", "a-b")["Statement"]]
    assert resources[:2] == ["arn:aws:s3:::my-bucket/jobs/a-b/*", "arn:aws:s3:::my-bucket/blobs/*"]


@pytest.mark.parametrize(
    ("url", "environ"),
    [
        ("s3://bucket/x", {name: value for name, value in ENV.items() if name != ROLE}),
        ("gs://bucket/x", {**ENV, "GOOGLE_SERVICE_ACCOUNT_KEY": "{}"}),
        ("/folder", ENV),
    ],
)
def test_without_a_role_or_s3_they_are_the_plain_ones(url, environ):
    assert scoped_credentials(url, "a-b", environ, 3600) == credentials(url, environ)


@pytest.mark.parametrize(("wanted", "asked"), [(1, 900), (3600.5, 3600), (10**6, 43200)])
def test_the_time_is_one_that_can_be_had(monkeypatch, wanted, asked):
    calls = []

    class Sts:
        def assume_role(self, **words):
            calls.append(words)
            given = {
                "AccessKeyId": "a",
                "SecretAccessKey": "b",
                "SessionToken": "c",
                "Expiration": datetime(2026, 1, 1),
            }
            return {"Credentials": given, "ResponseMetadata": {"HTTPHeaders": {}}}

    monkeypatch.setattr(aws, "client", lambda service, env: Sts())
    assert scoped_credentials("s3://b/x", "j" * 90, ENV, wanted)["AWS_SESSION_TOKEN"] == "c"
    assert calls[0]["DurationSeconds"] == asked
    assert len(calls[0]["RoleSessionName"]) == 64
    assert len(calls[0]["Policy"]) < 2048, "what STS takes"


def test_a_role_with_shorter_sessions_says_how_to_change_that(monkeypatch):
    message = "The requested DurationSeconds exceeds the MaxSessionDuration set for this role."
    monkeypatch.setattr(scoped.aws, "ask", lambda what, act: Answer({}, {}, "ValidationError", message))
    with pytest.raises(StoreDenied, match="--role-name gpujob --max-session-duration 36000"):
        scoped_credentials("s3://b/x", "a-b", ENV, 36000)


@pytest.mark.real
class TestForReal:
    @pytest.fixture(params=["", "team/store"])
    def url(self, request, lender):
        own = lender.url().rpartition("/")[2]
        return f"s3://{lender.bucket}/{own}/{request.param}".rstrip("/")

    def test_a_job_reaches_its_own_and_nothing_else(self, lender, url, tmp_path):
        everything = open_store(url, lender.env)
        for job in ("mine", "theirs"):
            everything.put(JobKeys(job).plan, b"plan")
        everything.put("blobs/aa/aa11", b"shared")
        env = scoped_credentials(url, "mine", lender.with_role, 3600)
        assert set(env) == {*credentials(url, lender.with_role), "AWS_SESSION_TOKEN", EXPIRATION}
        assert ROLE not in env
        assert env["AWS_SECRET_ACCESS_KEY"] != lender.with_role["AWS_SECRET_ACCESS_KEY"]
        assert abs(datetime.fromisoformat(env[EXPIRATION]).timestamp() - time.time() - 3600) < 60
        store, keys = open_store(url, env), JobKeys("mine")

        assert store.get(keys.plan) == b"plan"
        etag = store.put(keys.head, b"1", if_absent=True)
        with pytest.raises(AlreadyExists):
            store.put(keys.head, b"1", if_absent=True)
        store.put(keys.head, b"2", if_match=etag)
        (tmp_path / "large").write_bytes(data := os.urandom(20 << 20))
        store.put_file(f"{keys.checkpoint(1, 1)}files/large", tmp_path / "large")
        store.get_file(f"{keys.checkpoint(1, 1)}files/large", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == data
        assert [info.key for info in store.list(keys.checkpoints)] == [f"{keys.checkpoint(1, 1)}files/large"]
        store.delete(f"{keys.checkpoint(1, 1)}files/large")
        with pytest.raises(NotFound):
            store.get(keys.attempt(1).beat)
        assert store.get("blobs/aa/aa11") == b"shared"
        store.put("blobs/aa/aa22", b"new")
        assert len(list(store.list("blobs/aa/"))) == 2

        for refused in (
            lambda: store.put(keys.plan, b"another plan"),
            lambda: store.delete(keys.plan),
            lambda: store.delete("blobs/aa/aa11"),
            lambda: store.get(JobKeys("theirs").plan),
            lambda: store.put(JobKeys("theirs").head, b"x"),
            lambda: store.delete(JobKeys("theirs").plan),
            lambda: list(store.list("jobs/")),
            lambda: list(store.list(JobKeys("theirs").prefix)),
            lambda: list(store.list("")),
            lambda: store.put("elsewhere", b"x"),
        ):
            with pytest.raises(StoreDenied):
                refused()
        assert everything.get(keys.plan) == b"plan"

    def test_a_role_that_cannot_be_had_is_an_error_without_the_key(self, lender):
        for environ in (
            {**lender.with_role, ROLE: "arn:aws:iam::role/none"},
            {**lender.with_role, "AWS_SECRET_ACCESS_KEY": "wrong-secret"},
            {**lender.with_role, "AWS_ENDPOINT_URL_STS": "nonsense"},
        ):
            with pytest.raises(StoreDenied) as caught:
                scoped_credentials("s3://b/x", "a-b", environ, 3600)
            shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
            assert environ["AWS_SECRET_ACCESS_KEY"] not in shown
            assert caught.value.hint
