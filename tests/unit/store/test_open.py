"""From a URL to a store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpujob.core.errors import StoreDenied, StoreError
from gpujob.store import urls
from gpujob.store.open import is_local, open_store
from gpujob.store.retry import Retrying


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("{folder}/a b", "file://{folder}/a%20b"),
        ("file://{folder}/a%20b", "file://{folder}/a%20b"),
        ("file://localhost{folder}/x", "file://{folder}/x"),
        ("memory://one", "memory://one"),
        ("s3://bucket/prefix", "s3://bucket/prefix"),
        ("S3://bucket/prefix", "S3://bucket/prefix"),
        ("gs://bucket/prefix", "gs://bucket/prefix"),
        ("az://container/prefix", "az://container/prefix"),
        ("ftp://user:secret@nas/data", "ftp://nas/data"),
    ],
)
def test_every_kind_of_url(tmp_path, url, shown):
    store = open_store(url.format(folder=tmp_path), {"NOTHING": "here"})
    assert isinstance(store, Retrying)
    assert store.url == shown.format(folder=tmp_path)
    assert store.capabilities.conditional == (not url.startswith("ftp"))


def test_a_folder_is_the_same_store_by_path_and_by_url(tmp_path):
    open_store(str(tmp_path / "a b#c%"), {}).put("key", b"x")
    assert open_store((tmp_path / "a b#c%").as_uri(), {}).get("key") == b"x"


def test_memory_is_shared_by_url(tmp_path):
    open_store(f"memory://{tmp_path}", {}).put("key", b"x")
    assert open_store(f"memory://{tmp_path}", {}).get("key") == b"x"
    assert list(open_store(f"memory://{tmp_path}/other", {}).list("")) == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nosuch://bucket/x", "s3://bucket/prefix"),
        ("nosuch://user:secret@bucket/x?sig=secret", "s3://bucket/prefix"),
        ("sftp://user:secret@nas/x", "does not check who the server is"),
        ("file://nas/share", "file:///nas/share"),
        ("oss://user:secret@cluster/x", "nstall"),
    ],
)
def test_what_cannot_be_opened_says_what_to_do(url, said):
    with pytest.raises(StoreError, match="cannot open") as caught:
        open_store(url, {})
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_in_the_way_of_the_folder(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreDenied, match="is a file"):
        open_store(str(tmp_path / "file" / "deep" / "store"), {})


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, how: Path(path) != tmp_path)
    with pytest.raises(StoreDenied, match="cannot be written") as caught:
        open_store(str(tmp_path / "not yet there"), {})
    assert caught.value.hint


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("/mnt/store", True),
        ("relative", True),
        ("file:///mnt", True),
        ("memory://", True),
        ("s3://b", False),
        ("gs://b", False),
        ("ftp://host", False),
    ],
)
def test_is_local(url, local):
    assert is_local(url) == local


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://key:secret@bucket/a@b", "s3://bucket/a@b"),
        ("https://user:p@ss@host/x?sig=secret#f", "https://host/x"),
        ("/folder/user:p@ss?x", "/folder/user:p@ss?x"),
    ],
)
def test_a_url_is_shown_without_credentials(url, shown):
    assert urls.without_credentials(url) == shown


def test_importing_open_loads_no_heavy_library(tmp_path):
    code = """
import sys
import gpujob.store.open as opening
from pathlib import Path
heavy = {"obstore", "boto3", "botocore", "fsspec", "paramiko", "torch", "tenacity"} & set(sys.modules)
assert not heavy, heavy
opening.open_store(sys.argv[1], {}).put("key", b"")
heavy = {"obstore", "boto3", "botocore", "fsspec"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "store")], check=True, timeout=60)
    assert (tmp_path / "store" / "key").exists()
