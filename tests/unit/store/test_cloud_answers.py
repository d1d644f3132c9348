"""What a cloud says, in the errors of the contract: each status from a small server, the rest from the real one."""

from __future__ import annotations

import json
import os
import threading
import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gpujob.core.errors import (
    AlreadyExists,
    NotFound,
    PreconditionFailed,
    StoreDenied,
    StoreError,
    StoreUnavailable,
)
from gpujob.store.cloud import CloudStore
from gpujob.store.open import open_store

KEYS = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI", "AWS_SESSION_TOKEN": "FwoGZXIv"}


GOOGLE = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
"""A key as emulators take it: no token is fetched."""


def xml(code: str, message: str = "as it says") -> bytes:
    more = f"<AWSAccessKeyId>{KEYS['AWS_ACCESS_KEY_ID']}</AWSAccessKeyId><StringToSign>wJalrXUtnFEMI</StringToSign>"
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message>{more}</Error>".encode()


class Scripted(ThreadingHTTPServer):
    """Answers everything alike, but a list if there is one, and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.body, self.asked = 200, b"", []
        self.listed: bytes | None = None

    def store(self, scheme: str = "s3", **more: str) -> CloudStore:
        address = f"http://127.0.0.1:{self.server_port}"
        env = {
            "s3": {**KEYS, "AWS_ENDPOINT_URL": address},
            "gs": {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps({**GOOGLE, "gcs_base_url": address})},
            "az": {
                "AZURE_STORAGE_ACCOUNT_NAME": "account",
                "AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=wJalrXUtnFEMI",
                "AZURE_STORAGE_ENDPOINT": f"{address}/account",
            },
        }[scheme]
        return CloudStore(f"{scheme}://bucket/prefix", {**env, **more})


class Handler(BaseHTTPRequestHandler):
    server: Scripted

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
        status, body = self.server.status, self.server.body
        if self.server.listed is not None and "list-type=2" in self.path:
            status, body = 200, self.server.listed
        self.send_response(status)
        self.send_header("ETag", '"tag"')
        self.send_header("x-goog-generation", "123")
        self.send_header("Last-Modified", "Tue, 01 Dec 2026 00:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Scripted]:
    with Scripted() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def assert_nothing_leaks(error: BaseException) -> None:
    shown = "".join(traceback.format_exception(error)) + repr(error)
    for secret in KEYS.values():
        assert secret not in shown


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (500, b"oops", StoreUnavailable),
        (502, b"<html>bad gateway</html>", StoreUnavailable),
        (503, xml("SlowDown"), StoreUnavailable),
        (429, b"", StoreUnavailable),
        (400, xml("RequestTimeout"), StoreUnavailable),
        (400, xml("BadDigest"), StoreUnavailable),
        (409, xml("OperationAborted"), StoreUnavailable),
        (400, xml("ExpiredToken"), StoreDenied),
        (400, xml("InvalidArgument"), StoreError),
        (501, xml("NotImplemented"), StoreError),
        (401, b"", StoreDenied),
        (403, xml("InvalidAccessKeyId"), StoreDenied),
        (403, xml("SignatureDoesNotMatch"), StoreDenied),
        (404, xml("NoSuchBucket"), StoreDenied),
        (301, b"", StoreDenied),
    ],
)
def test_each_status_is_one_error_asked_for_once(server, status, body, kind):
    server.status, server.body = status, body
    store = server.store()
    for number, ask in enumerate((lambda: store.get("key"), lambda: store.put("key", b"data")), 1):
        with pytest.raises(StoreError) as caught:
            ask()
        assert type(caught.value) is kind
        assert len(server.asked) == number, "only the retry wrapper asks again"
        assert_nothing_leaks(caught.value)
    if body.startswith(b"<?xml") and kind is not StoreDenied:
        assert "as it says" in str(caught.value)


def test_an_object_that_is_not_there(server):
    server.status, server.body = 404, xml("NoSuchKey")
    store = server.store()
    for ask in (lambda: store.get("key"), lambda: store.get("key", start=3, length=1), lambda: store.head("key")):
        with pytest.raises(NotFound):
            ask()


@pytest.mark.parametrize(
    ("status", "condition", "kind"),
    [
        (412, {"if_absent": True}, AlreadyExists),
        (412, {"if_match": '"x"'}, PreconditionFailed),
        (404, {"if_match": '"x"'}, PreconditionFailed),
        (409, {"if_match": '"x"'}, PreconditionFailed),
        (503, {"if_match": '"x"'}, StoreUnavailable),
        (503, {"if_absent": True}, StoreUnavailable),
    ],
)
def test_a_conditional_put_is_one_plain_request(server, status, condition, kind):
    server.status = status
    with pytest.raises(StoreError) as caught:
        open_store_like(server).put("key", b"data", **condition)
    assert type(caught.value) is kind
    [(method, path, headers)] = server.asked
    assert (method, path) == ("PUT", "/bucket/prefix/key")
    assert headers.get("if-none-match") == ("*" if "if_absent" in condition else None)
    assert headers.get("if-match") == condition.get("if_match")


def open_store_like(server: Scripted):
    """The whole stack, retry included."""
    return open_store("s3://bucket/prefix", {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}"})


@pytest.mark.parametrize(("switch", "sent"), [("when_supported", True), ("when_required", False)])
def test_the_server_is_given_a_checksum_to_verify(server, switch, sent):
    server.store(AWS_REQUEST_CHECKSUM_CALCULATION=switch).put("key", b"data")
    headers = server.asked[0][2]
    assert ("x-amz-checksum-sha256" in headers) == sent
    assert headers["x-amz-content-sha256"] != "UNSIGNED-PAYLOAD"


def test_the_keys_given_are_not_mixed_with_those_of_this_process(server, monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-the-process")
    CloudStore(
        "s3://bucket/x",
        {
            "AWS_ACCESS_KEY_ID": "given",
            "AWS_SECRET_ACCESS_KEY": "s",
            "AWS_ENDPOINT_URL": server.store()._env["AWS_ENDPOINT_URL"],
        },
    ).put("key", b"")
    headers = server.asked[0][2]
    assert "Credential=given/" in headers["authorization"]
    assert "x-amz-security-token" not in headers


def test_without_keys_they_come_from_the_users_profile(server, monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    (tmp_path / "keys").write_text("[mine]\naws_access_key_id = from-profile\naws_secret_access_key = s\n")
    (tmp_path / "config").write_text(
        f"[profile mine]\nregion = eu-north-1\nendpoint_url = http://127.0.0.1:{server.server_port}\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "mine")
    open_store("s3://bucket/x").put("key", b"")
    assert "Credential=from-profile/" in server.asked[0][2]["authorization"]
    assert "/eu-north-1/" in server.asked[0][2]["authorization"]


def test_no_keys_anywhere_is_said_with_the_way_out(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for env in (None, {"AWS_PROFILE": "missing"}):
        with pytest.raises(StoreDenied, match="no AWS credentials") as caught:
            open_store("s3://bucket/x", env).get("key")
        assert "AWS_ACCESS_KEY_ID" in caught.value.hint


def test_google_swaps_by_generation(server):
    store = server.store("gs")
    assert store.put("key", b"data") == "123"
    server.status = 412
    with pytest.raises(PreconditionFailed):
        store.put("key", b"data", if_match="122")
    assert server.asked[1][2]["x-goog-if-generation-match"] == "122"
    with pytest.raises(AlreadyExists):
        store.put("key", b"data", if_absent=True)
    assert server.asked[2][2]["x-goog-if-generation-match"] == "0"


def test_azure_swaps_by_etag_and_its_token_is_never_shown(server):
    store = server.store("az")
    assert store.put("key", b"data") == '"tag"'
    server.status = 403
    with pytest.raises(StoreDenied) as caught:
        store.put("key", b"data", if_match='"x"')
    assert server.asked[1][2]["if-match"] == '"x"'
    assert "sig=wJalrXUtnFEMI" in server.asked[1][1], "the token is in the address"
    assert_nothing_leaks(caught.value)


def test_nobody_there_may_pass():
    store = CloudStore("s3://bucket/prefix", {**KEYS, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"})
    with pytest.raises(StoreUnavailable) as caught:
        store.get("key")
    assert_nothing_leaks(caught.value)


@pytest.mark.parametrize(
    "address", ["", " ", "localhost:9000", "http://", "http://x:99999", "http://a b", "ftp://x", "http://x\n"]
)
def test_an_address_that_is_none(address):
    with pytest.raises(StoreDenied) as caught:
        CloudStore("s3://bucket/prefix", {**KEYS, "AWS_ENDPOINT_URL": address or "x"}).get("key")
    assert "AWS_ENDPOINT_URL" in str(caught.value)
    assert "http" in caught.value.hint


@pytest.mark.parametrize("env", [{"AWS_ENDPOINT_URL": "no url wJalrXUtnFEMI"}, {"AWS_SKIP_SIGNATURE": "wJalrXUtnFEMI"}])
def test_settings_that_cannot_be_used_are_not_quoted(env):
    with pytest.raises(StoreError) as caught:
        CloudStore("s3://bucket/prefix", {**KEYS, **env}).get("key")
    assert_nothing_leaks(caught.value)


def test_nothing_that_is_shown_holds_a_credential():
    store = CloudStore("s3://user:wJalrXUtnFEMI@bucket/prefix", KEYS)
    assert store.url == "s3://bucket/prefix"
    for shown in (repr(store), repr(store._connection), str(vars(open_store("s3://bucket/prefix", KEYS)))):
        assert not any(secret in shown for secret in KEYS.values())


@pytest.mark.real
@pytest.mark.parametrize(
    ("url", "wrong", "kind", "said"),
    [
        (None, {"AWS_SECRET_ACCESS_KEY": "wrong-secret"}, StoreDenied, "403"),
        (None, {"AWS_ACCESS_KEY_ID": "nobody"}, StoreDenied, "403"),
        ("s3://no-such-bucket/x", {}, StoreDenied, "no such bucket"),
    ],
)
def test_the_real_server_says_no(s3, url, wrong, kind, said):
    store = CloudStore(url or s3.url(), {**s3.env, **wrong})
    for ask in (lambda: store.put("key", b"x"), lambda: store.put("key", b"x", if_absent=True)):
        with pytest.raises(kind, match=said) as caught:
            ask()
        shown = "".join(traceback.format_exception(caught.value))
        assert not any(secret in shown for secret in ("wrong-secret", s3.env["AWS_SECRET_ACCESS_KEY"], "nobody"))


@pytest.mark.real
def test_a_file_that_changes_while_it_is_sent_is_not_taken_for_whole(s3, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"x" * (20 << 20))

    def shrink(count: int) -> None:
        with source.open("r+b") as file:
            file.truncate(17 << 20)

    with pytest.raises(StoreUnavailable, match="changed meanwhile"):
        CloudStore(s3.url(), s3.env).put_file("key", source, shrink)


LISTED = b"""<?xml version="1.0"?>
<ListBucketResult><Name>bucket</Name><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated>
<Contents><Key>prefix/jobs/there</Key><LastModified>2026-12-01T00:00:00.000Z</LastModified><ETag>"tag"</ETag>
<Size>3</Size></Contents></ListBucketResult>"""


def test_an_object_that_is_missing_is_missing_where_s3_says_403_to_that(server, tmp_path):
    # S3 tells nobody that a key is free who may not list the whole bucket.
    server.status, server.body, server.listed = 403, xml("AccessDenied"), LISTED
    store = server.store()
    for ask in (store.get, store.head, lambda key: store.get_file(key, tmp_path / "file")):
        with pytest.raises(NotFound):
            ask("jobs/missing")
        with pytest.raises(StoreDenied):
            ask("jobs/there")
    server.listed = None
    with pytest.raises(StoreDenied):
        store.get("jobs/missing")


def test_a_deletion_that_is_refused_says_so(server):
    refused = "<Error><Key>prefix/jobs/there</Key><Code>%s</Code><Message>as it says</Message></Error>"
    for code, kind in (("AccessDenied", StoreDenied), ("InternalError", StoreUnavailable), ("Odd", StoreError)):
        server.body = f"<?xml version='1.0'?><DeleteResult>{refused % code}</DeleteResult>".encode()
        with pytest.raises(StoreError, match=code) as caught:
            server.store().delete("jobs/there")
        assert type(caught.value) is kind
