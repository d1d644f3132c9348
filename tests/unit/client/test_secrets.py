from __future__ import annotations

import stat

import pytest

from gpujob.client import secrets
from gpujob.client.secrets import JobSecrets
from gpujob.core.errors import Damaged, UsageError
from gpujob.core.layout import HomePaths

S3 = "s3://bucket/jobs"
ENVIRON = {
    "HF_TOKEN": "hf_secret",
    "AWS_SECRET_ACCESS_KEY": "aws-secret",
    "PATH": "/bin",
    "HF_HOME": "/cache",
    "HTTPS_PROXY": "http://me:proxy-password@proxy",
    "SSH_AUTH_SOCK": "/tmp/agent",
}


def test_secrets_come_from_the_file_before_the_environment():
    known = secrets.gather(["HF_TOKEN", "WANDB_API_KEY"], S3, ENVIRON, {"WANDB_API_KEY": "w", "HF_TOKEN": "other"})
    assert known.values == {"HF_TOKEN": "other", "WANDB_API_KEY": "w"}
    assert known.store_env == {"AWS_SECRET_ACCESS_KEY": "aws-secret"}
    assert secrets.gather([], "/a/folder", ENVIRON).store_env == {}
    assert known.machine_env == {key: ENVIRON[key] for key in ("PATH", "HF_HOME", "HTTPS_PROXY")}


def test_missing_secrets_are_all_named():
    with pytest.raises(UsageError, match="A, C"):
        secrets.gather(["A", "HF_TOKEN", "C"], S3, {**ENVIRON, "C": ""})


def test_only_the_owner_can_read_them_and_nothing_prints_them(tmp_path):
    home = HomePaths(tmp_path / "home")
    known = secrets.gather(["HF_TOKEN"], S3, ENVIRON)
    secrets.save(home, "j", known)
    assert secrets.load(home, "j") == known
    path = home.secrets("j")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for secret in ("hf_secret", "aws-secret", "proxy-password"):
        assert secret not in repr(known) + str(known)
    secrets.remove(home, "j")
    secrets.remove(home, "j")
    assert not path.exists()
    assert secrets.load(home, "j") == JobSecrets()


def test_a_damaged_file_is_named_and_not_quoted(tmp_path):
    home = HomePaths(tmp_path)
    secrets.save(home, "j", JobSecrets(values={"A": "hf_secret"}))
    path = home.secrets("j")
    path.write_bytes(path.read_bytes().replace(b'"A": "hf_secret"', b'"A": ["hf_secret"]'))
    with pytest.raises(Damaged) as caught:
        secrets.load(home, "j")
    assert str(path) in str(caught.value)
    chain = repr(caught.value) + repr(caught.value.__cause__) + repr(caught.value.__suppress_context__)
    assert "hf_secret" not in str(caught.value) + chain
