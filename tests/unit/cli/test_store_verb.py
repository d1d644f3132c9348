"""gpujob store check: its table, its JSON, its exit codes, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpujob.store.open import open_store
from support.console import Shell
from support.desk import until
from support.s3 import S3Server


def test_a_folder_that_can_hold_jobs(shell: Shell, tmp_path: Path) -> None:
    ran = shell("store", "check", str(tmp_path / "store"))
    assert (ran.code, ran.err) == (0, "")
    rows = [line.split() for line in ran.out.splitlines()]
    assert rows[0] == ["CHECK", "FOUND"]
    assert ["rights", "ok"] in [row[:2] for row in rows]
    assert all("ok" in row for row in rows[1:])


def test_one_that_cannot_says_what_to_do_and_exits_with_20(shell: Shell, tmp_path: Path) -> None:
    ran = shell("store", "check", f"local://{tmp_path}/store")
    assert ran.code == 20
    assert "\nconditional writes: keep jobs in S3" in ran.out
    found = shell("store", "check", f"local://{tmp_path}/store", "--json")
    assert (found.code, found.err, found.json["worst"]) == (20, "", "error")
    assert {finding["check"]: finding["level"] for finding in found.json["findings"]} == {
        "rights": "ok",
        "clock": "ok",
        "order": "ok",
        "conditional writes": "error",
        "large objects": "ok",
        "speed": "ok",
    }


def test_a_store_that_cannot_be_is_an_error(shell: Shell, tmp_path: Path) -> None:
    assert shell("store", "check", "memory://x").code == 2
    assert shell("store", "chek", "/x").code == 2
    (tmp_path / "file").touch()
    ran = shell("store", "check", str(tmp_path / "file" / "store"), "--json")
    assert (ran.code, "is a file" in ran.json["error"]["cause"]) == (20, True)


def test_the_credentials_of_an_env_file_are_used_and_not_shown(shell: Shell, tmp_path: Path) -> None:
    lines = ("AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=never-shown", "AWS_ENDPOINT_URL=http://127.0.0.1:9")
    (tmp_path / ".env").write_text("\n".join(lines))
    ran = shell("store", "check", "s3://user:password@bucket/x", "--env-file", str(tmp_path / ".env"), "--json")
    assert (ran.code, ran.json["url"]) == (20, "s3://bucket/x")
    assert "cannot be reached" in ran.json["findings"][0]["text"]
    assert "never-shown" not in ran.out + ran.err
    assert "password" not in ran.out + ran.err


@pytest.mark.real
def test_ctrl_c_cleans_up(s3: S3Server, tmp_path: Path) -> None:
    url = s3.url()
    store = open_store(url, s3.env)
    environ = {**os.environ, **s3.env, "PYTHONPATH": os.pathsep.join(sys.path), "GPUJOB_HOME": str(tmp_path)}
    argv = [sys.executable, "-m", "gpujob.cli.main", "store", "check", url]
    with subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: [*store.list("")], "something to lie in the store")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, "", "\ninterrupted\n")
    assert [*store.list("")] == []
