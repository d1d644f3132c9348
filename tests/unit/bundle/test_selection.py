"""Which files of a workdir travel, and what is said about the rest."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from gpujob.bundle import Selection, select, selection
from gpujob.core.errors import CheckError
from gpujob.core.layout import HomePaths, JobKeys
from support.hostile import STUCK, TRAVELLING

SECRETS = [
    ".env",
    ".env.production",
    ".ENV",
    "conf/.env",
    "server.pem",
    "tls/server.key",
    "id_rsa",
    "id_rsa.pub",
    "keys/id_ed25519",
    ".netrc",
    ".aws/credentials",
    ".aws/config",
    "home/.ssh/config",
    "credentials.json",
    "credentials-prod.json",
    "vault.kdbx",
    ".huggingface/token",
    ".cache/huggingface/token",
    ".docker/config.json",
    "kaggle.json",
    ".git-credentials",
]
CLUTTER = [
    ".git/config",
    ".hg/x",
    ".svn/x",
    ".venv/bin/python",
    "venv/x",
    "node_modules/x.js",
    "pkg/__pycache__/a.cpython-311.pyc",
    "old.pyc",
    ".mypy_cache/x",
    ".pytest_cache/x",
    "sub/.DS_Store",
    "store/.gpujob/lock",
]


def plant(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def names(chosen: Selection) -> list[str]:
    return [file.path for file in chosen.files]


def why(chosen: Selection) -> dict[str, str]:
    return dict(chosen.left_out)


def test_everything_but_clutter_travels_in_order(tmp_path: Path) -> None:
    plant(tmp_path, "train.py", "src/b.py", "src/a.py", ".hidden", *CLUTTER)
    chosen = select(tmp_path)
    assert names(chosen) == [".hidden", "src/a.py", "src/b.py", "train.py"]
    assert chosen.total_bytes == sum(len(name) for name in names(chosen))
    assert (chosen.left_out, chosen.odd) == ((), ())


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_never_travels_and_is_reported(tmp_path: Path, secret: str) -> None:
    plant(tmp_path, "train.py", secret)
    (tmp_path / ".gpujobignore").write_text(f"!{secret}\n")
    chosen = select(tmp_path)
    assert names(chosen) == [".gpujobignore", "train.py"]
    (left,) = chosen.left_out
    assert secret.startswith(left.path)
    assert left.why == selection.SECRET


def test_a_tracked_secret_is_still_left_out(tmp_path: Path) -> None:
    plant(tmp_path, ".env", "train.py")
    for argv in (["init", "-q"], ["add", "-f", "."]):
        subprocess.run(["git", *argv], cwd=tmp_path, check=True, capture_output=True)
    assert names(select(tmp_path)) == ["train.py"]
    assert ".env" in why(select(tmp_path))


def test_an_ignored_secret_is_reported_too(tmp_path: Path) -> None:
    plant(tmp_path, ".env")
    (tmp_path / ".gitignore").write_text(".env\n")
    assert ".env" in why(select(tmp_path))


@pytest.mark.parametrize("harmless", ["environment.py", "keys.py", "token.py", "env", "my.env.py", "monkey.txt"])
def test_a_harmless_name_is_no_secret(tmp_path: Path, harmless: str) -> None:
    plant(tmp_path, harmless)
    assert names(select(tmp_path)) == [harmless]


def test_gpujobignore_replaces_gitignore_everywhere(tmp_path: Path) -> None:
    plant(tmp_path, "a.log", "b.ckpt", "sub/a.log", "sub/b.ckpt", "sub/c.txt")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "sub/.gitignore").write_text("*.txt\n")
    (tmp_path / ".gpujobignore").write_text("*.ckpt\n")
    (tmp_path / "sub/.gpujobignore").write_text("!b.ckpt\n")
    kept = [name for name in names(select(tmp_path)) if not name.endswith("ignore")]
    assert kept == ["a.log", "sub/a.log", "sub/b.ckpt", "sub/c.txt"]


def test_the_repository_s_own_ignore_file_counts_in_a_workdir_below_it(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    plant(repository, "jobs/run/train.py", "jobs/run/model.ckpt", "jobs/run/out/x", "jobs/run/keep.ckpt")
    (repository / ".git").mkdir()
    (repository / ".gitignore").write_text("*.ckpt\n/jobs/run/out/\njobs\n")
    (repository / "jobs/.gitignore").write_text("!keep.ckpt\n")
    (tmp_path / ".gitignore").write_text("*\n")
    assert names(select(repository / "jobs/run")) == ["keep.ckpt", "train.py"]


def test_names_in_other_alphabets_are_matched(tmp_path: Path) -> None:
    plant(tmp_path, "é.txt", "日本/x", "ok")
    (tmp_path / ".gitignore").write_text("é*\n日本/\n", encoding="utf-8")
    assert names(select(tmp_path)) == [".gitignore", "ok"]


def test_an_ignore_file_in_no_known_encoding_is_read(tmp_path: Path) -> None:
    plant(tmp_path, "a.log", "ok")
    (tmp_path / ".gitignore").write_bytes(b"\xff\xfe\xe9\n*.log\r\n")
    assert names(select(tmp_path)) == [".gitignore", "ok"]


def test_links_inside_travel_as_copies(tmp_path: Path) -> None:
    plant(tmp_path, "real/data.txt", "real/deep/x")
    (tmp_path / "file").symlink_to("real/data.txt")
    (tmp_path / "absolute").symlink_to(tmp_path / "real/data.txt")
    (tmp_path / "folder").symlink_to("real")
    chosen = select(tmp_path)
    assert names(chosen) == ["absolute", "file", "folder/data.txt", "folder/deep/x", "real/data.txt", "real/deep/x"]
    assert chosen.left_out == ()


def test_links_that_lead_nowhere_good_are_reported(tmp_path: Path) -> None:
    root = tmp_path / "root"
    plant(tmp_path, "outside", "root/.env", "root/.git/config", "root/a/x", "root/b/y")
    links = {
        "out": "../outside",
        "dangling": "nothing",
        "loop": "loop",
        "secret": ".env",
        "history": ".git/config",
        "a/up": "..",
        "a/self": ".",
        "etc": "/etc",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    chosen = select(root)
    assert names(chosen) == ["a/x", "b/y"]
    assert set(why(chosen)) == {*links, ".env"}


def test_folders_that_link_to_each_other_end(tmp_path: Path) -> None:
    for name in "abcdef":
        plant(tmp_path, f"{name}/file")
        for other in "abcdef":
            (tmp_path / name / f"to-{other}").symlink_to(f"../{other}")
    chosen = select(tmp_path)
    assert {f"{a}/to-{b}/file" for a in "abcdef" for b in "abcdef" if a != b} < set(names(chosen))
    assert all(name.count("/") <= 2 for name in names(chosen))


def test_a_linked_root_is_walked(tmp_path: Path) -> None:
    plant(tmp_path, "real/x", "real/y")
    (tmp_path / "real/z").symlink_to("x")
    (tmp_path / "root").symlink_to("real")
    assert names(select(tmp_path / "root")) == ["x", "y", "z"]


def test_pipes_and_sockets_are_reported(tmp_path: Path) -> None:
    plant(tmp_path, "ok")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "sock"))
        chosen = select(tmp_path)
    assert names(chosen) == ["ok"]
    assert set(why(chosen)) == {"pipe", "sock"}


def test_what_cannot_be_read_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, "ok", "locked", "closed/x")
    real_access, real_scandir = os.access, os.scandir

    def access(path: Path, mode: int) -> bool:
        return path.name != "locked" and real_access(path, mode)

    def scandir(path: Path) -> object:
        if path.name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return real_scandir(path)

    # The tests may run as root, who can read anything.
    monkeypatch.setattr(os, "access", access)
    monkeypatch.setattr(os, "scandir", scandir)
    chosen = select(tmp_path)
    assert names(chosen) == ["ok"]
    denied = "it cannot be read: permission denied"
    assert why(chosen) == {"locked": denied, "closed/": denied}


@pytest.mark.parametrize("stuck", STUCK)
def test_a_name_that_cannot_travel_is_reported_and_odd(tmp_path: Path, stuck: str) -> None:
    plant(tmp_path, "ok", stuck)
    chosen = select(tmp_path)
    assert names(chosen) == ["ok"]
    assert chosen.left_out == chosen.odd
    assert chosen.odd[0].path.isprintable()


def test_a_name_that_is_not_utf_8_is_reported(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9")).write_text("x")
    assert why(select(tmp_path)) == {"caf\\udce9": "its name is not UTF-8"}


def test_hostile_names_travel(tmp_path: Path) -> None:
    plant(tmp_path, *TRAVELLING)
    assert set(names(select(tmp_path))) == set(TRAVELLING)


def test_odd_things_are_remarked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, "Readme", "README", "caf\u00e9", "cafe\u0301", "x")
    os.truncate(tmp_path / "x", selection.BIG_BYTES + 1)
    monkeypatch.setattr(selection, "MANY_FILES", 4)
    odd = dict(select(tmp_path).odd)
    assert odd["x"] == "a big file: 100.0 MB"
    assert odd["."] == "very many files: 5"
    assert odd["README"].endswith("case or accents: Readme")
    assert "caf\u00e9" in odd["cafe\u0301"]


def test_a_store_of_ours_is_left_out(tmp_path: Path) -> None:
    plant(tmp_path, "train.py", "blobs/mine.py", "jobs/demo/job.yaml")
    plant(tmp_path, f"out/{JobKeys('abc').head}", f"older/{JobKeys('abc').bundle}")
    home = HomePaths(tmp_path / "home")
    home.journal.mkdir(parents=True)
    plant(home.rental("abc"), "parts/code/train.py")
    chosen = select(tmp_path)
    assert names(chosen) == ["blobs/mine.py", "jobs/demo/job.yaml", "train.py"]
    assert why(chosen) == dict.fromkeys(["out", "older", "home"], "a store of gpujob")


def test_no_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckError, match="no such folder"):
        select(tmp_path / "nothing")
