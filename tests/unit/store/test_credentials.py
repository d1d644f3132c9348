"""What travels to another machine to open a store there, and what does not."""

from __future__ import annotations

import json

import pytest

from gpujob.core.errors import StoreDenied
from gpujob.store.credentials import credentials

ENVIRON = {
    "AWS_ACCESS_KEY_ID": "id",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_SESSION_TOKEN": "token",
    "AWS_ENDPOINT_URL": "http://10.0.0.1:8333",
    "AWS_REGION": "eu-central-1",
    "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
    "AWS_EXECUTION_ENV": "whatever",
    "AWS_PROFILE": "",
    "GOOGLE_SERVICE_ACCOUNT_KEY": "{}",
    "AZURE_STORAGE_ACCOUNT_KEY": "azure",
    "FSSPEC_FTP_PASSWORD": "ftp",
    "HF_TOKEN": "hf",
    "HOME": "/nonexistent",
}


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("/folder", set()),
        ("file:///folder", set()),
        ("memory://x", set()),
        ("s3://bucket/x", {name for name in ENVIRON if name.startswith("AWS_")} - {"AWS_EXECUTION_ENV", "AWS_PROFILE"}),
        ("gs://bucket/x", {"GOOGLE_SERVICE_ACCOUNT_KEY"}),
        ("az://container/x", {"AZURE_STORAGE_ACCOUNT_KEY"}),
        ("ftp://host/x", {"FSSPEC_FTP_PASSWORD"}),
        ("webdav://host/x", set()),
    ],
)
def test_only_what_that_store_needs_travels(url, names):
    assert credentials(url, ENVIRON) == {name: ENVIRON[name] for name in names}


@pytest.fixture
def aws(tmp_path):
    """A home with two AWS profiles."""
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text(
        "[default]\naws_access_key_id = D\naws_secret_access_key = DS\n"
        "[work]\naws_access_key_id=W\naws_secret_access_key=WS%x\naws_session_token=WT\n"
    )
    (folder / "config").write_text(
        "[default]\nregion = us-east-2\n[profile work]\nregion = eu-west-1\nendpoint_url = https://r2.example\n"
        "s3 =\n  max_concurrent_requests = 3\n[profile login]\nsso_session = x\n"
    )
    return {"HOME": str(tmp_path)}


def test_the_keys_of_the_default_profile_travel(aws):
    assert credentials("s3://bucket", aws) == {
        "AWS_ACCESS_KEY_ID": "D",
        "AWS_SECRET_ACCESS_KEY": "DS",
        "AWS_REGION": "us-east-2",
    }


def test_the_keys_of_the_chosen_profile_travel_and_the_environment_wins(aws):
    assert credentials("s3://bucket", {**aws, "AWS_PROFILE": "work", "AWS_REGION": "mars-1"}) == {
        "AWS_ACCESS_KEY_ID": "W",
        "AWS_SECRET_ACCESS_KEY": "WS%x",
        "AWS_SESSION_TOKEN": "WT",
        "AWS_REGION": "mars-1",
        "AWS_ENDPOINT_URL": "https://r2.example",
    }


def test_keys_of_the_environment_are_never_mixed_with_a_profiles(aws):
    given = {**aws, "AWS_ACCESS_KEY_ID": "E", "AWS_SECRET_ACCESS_KEY": "ES", "AWS_PROFILE": "work"}
    assert credentials("s3://bucket", given) == {"AWS_ACCESS_KEY_ID": "E", "AWS_SECRET_ACCESS_KEY": "ES"}


@pytest.mark.parametrize("profile", ["login", "missing"])
def test_a_login_does_not_travel(aws, profile):
    assert credentials("s3://bucket", {**aws, "AWS_PROFILE": profile}) == {}


def test_other_places_for_the_files(aws, tmp_path):
    moved = (tmp_path / ".aws" / "credentials").rename(tmp_path / "elsewhere")
    assert "AWS_ACCESS_KEY_ID" not in credentials("s3://bucket", aws)
    given = {**aws, "AWS_SHARED_CREDENTIALS_FILE": str(moved)}
    assert credentials("s3://bucket", given)["AWS_ACCESS_KEY_ID"] == "D"


def test_a_broken_file_is_not_quoted(aws, tmp_path):
    (tmp_path / ".aws" / "credentials").write_text("[default]\nSECRETLINE\n")
    with pytest.raises(StoreDenied) as caught:
        credentials("s3://bucket", aws)
    assert "SECRETLINE" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_google_key_travels_as_its_content(tmp_path):
    key = json.dumps({"type": "service_account", "private_key": "secret"})
    (tmp_path / "key.json").write_text(key)
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT"):
        given = {name: str(tmp_path / "key.json")}
        assert credentials("gs://bucket", given) == {"GOOGLE_SERVICE_ACCOUNT_KEY": key}


@pytest.mark.parametrize("content", ['{"type": "authorized_user"}', "SECRET", "[]"])
def test_a_persons_own_google_login_is_refused(tmp_path, content):
    (tmp_path / "key.json").write_text(content)
    with pytest.raises(StoreDenied, match="key") as caught:
        credentials("gs://bucket", {"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "key.json")})
    assert "SECRET" not in str(caught.value)
    assert "service account" in caught.value.hint
