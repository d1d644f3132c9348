"""What the child prints, however torn, and what is never in it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpujob.agent.clock import Clock
from gpujob.agent.output import LONGEST_LINE, Output
from gpujob.agent.redact import Redactor
from gpujob.core.records import Launch

SECRET = "hf_abcdefghijklmnop"


def through(tmp_path: Path, chunks: list[bytes], *secrets: str) -> bytes:
    log = tmp_path / "log"
    log.unlink(missing_ok=True)
    output = Output(log, Redactor(secrets), Clock())
    for chunk in chunks:
        output.feed(chunk)
    output.close()
    return log.read_bytes()


def test_lines_end_at_returns_as_well(tmp_path: Path) -> None:
    assert through(tmp_path, [b"10%\r20%\r", b"\n30%\r\nend"]) == b"10%\n20%\n30%\nend\n"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.lists(st.sampled_from([b"a", b"b ", b"\n", b"\r", b"\r\n", SECRET.encode()]), max_size=12),
    cuts=st.lists(st.integers(0, 60), max_size=6),
)
def test_where_chunks_are_torn_changes_nothing(tmp_path: Path, text: list[bytes], cuts: list[int]) -> None:
    data = b"".join(text)
    edges = sorted({0, *(min(cut, len(data)) for cut in cuts), len(data)})
    torn = through(tmp_path, [data[a:b] for a, b in zip(edges, edges[1:])], SECRET)  # noqa: B905, RUF007
    assert torn == through(tmp_path, [data], SECRET)
    assert SECRET.encode() not in torn


@pytest.mark.parametrize("before", range(LONGEST_LINE - len(SECRET) - 2, LONGEST_LINE + 3))
def test_a_long_line_is_cut_and_no_part_of_a_secret_shows(tmp_path: Path, before: int) -> None:
    line = b"x" * before + SECRET.encode() + b"y" * 100_000
    said = through(tmp_path, [line[:70_000], line[70_000:], b"\nnext\n"], SECRET)
    assert SECRET[:4].encode() not in said
    assert len(said) < LONGEST_LINE + 100
    assert said.endswith(b" [cut]\nnext\n")


def test_secrets_before_the_cut_do_not_move_one_behind_it_into_sight(tmp_path: Path) -> None:
    line = SECRET.encode() * 10_000
    said = through(tmp_path, [line], SECRET)
    assert set(said) == set(b"* [cut]\n")


def test_the_end_is_remembered_as_evidence(tmp_path: Path) -> None:
    output = Output(tmp_path / "log", Redactor([SECRET]), Clock(monotonic=lambda: 7.0))
    assert output.line_at is None
    output.feed(b"".join(b"line %d\n\n" % number for number in range(100)) + SECRET.encode() + b"\n" + b"z" * 9999)
    output.close()
    assert output.evidence[:1] + output.evidence[-2:] == ("line 62", "***", "z" * 500)
    assert len(output.evidence) == 40
    assert output.line_at == 7.0


def test_a_full_disk_does_not_stop_the_reading() -> None:
    output = Output(Path("/dev/full"), Redactor(), Clock())
    output.feed(b"one\ntwo\n")
    output.close()
    assert output.failure is not None
    assert output.failure.errno == errno.ENOSPC
    assert output.evidence == ("one", "two")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("s3cr3t", "x s3cr3t y"),
        ("s3cr3t\n", "x s3cr3t y"),
        ('quo"te\\d', '{"a": "quo\\"te\\\\d"}'),
        ("p@ss/word", "https://u:p%40ss%2Fword@host/"),
        ("-----BEGIN KEY-----\nMIIabcdefg\n-----END KEY-----\n", "MIIabcdefg"),
        ("-----BEGIN KEY-----\nMIIabcdefg\n-----END KEY-----\n", "a\\nMIIabcdefg\\nb"),
    ],
)
def test_secrets_are_found_in_every_dress(value: str, said: str) -> None:
    clean = Redactor([value]).text(said)
    assert "***" in clean
    for part in ("s3cr3t", "te\\\\d", "%40ss", "p@ss", "MIIabc"):
        assert part not in clean


def test_a_secret_that_begins_with_another_goes_as_a_whole() -> None:
    assert Redactor(["token", "token-and-more"]).text("a token-and-more b token") == "a *** b ***"


def test_of_the_stores_environment_only_credentials_are_secret() -> None:
    launch = Launch(
        job_id="j",
        attempt=1,
        store="s3://b",
        root="/r",
        secrets={"HF_TOKEN": "hf_1"},
        store_env={"AWS_REGION": "us-east-1", "AWS_SECRET_ACCESS_KEY": "wJalr", "AWS_ACCESS_KEY_ID": "AKIA"},
    )
    assert Redactor.of(launch).text("hf_1 us-east-1 wJalr AKIA") == "*** us-east-1 *** ***"


def test_no_secret_no_change() -> None:
    assert Redactor(["", "\n"]).text("as\nit is") == "as\nit is"
