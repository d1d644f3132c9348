"""Sending many bytes: all of them arrive, nothing twice, and whatever happens in between."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpujob import files
from gpujob.core.errors import Damaged, GpujobError, HostError, HostUnreachable
from gpujob.core.layout import HomePaths, blob
from gpujob.core.spec import Host
from gpujob.transport import chunks
from gpujob.transport.bulk import Sent, send_blobs
from gpujob.transport.open import open_transport
from gpujob.transport.protocol import Transport
from support.sshd import Sshd

pytestmark = pytest.mark.real


class Way:
    """A machine with a cache, and files of this one to bring there."""

    def __init__(self, machine: Transport, folder: Path) -> None:
        self.machine, self.cache, self.folder = machine, folder / "cache", folder / "files"
        self.folder.mkdir(parents=True)
        self.receiver = [sys.executable, "-m", "gpujob.transport.receive", str(self.cache)]
        self.told = 0

    def file(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        return path

    def send(self, *paths: Path) -> Sent:
        self.told = 0
        return send_blobs(self.machine, self.receiver, {files.digest(path): path for path in paths}, self._tell)

    def has(self, *paths: Path) -> bool:
        return all(files.digest(self.cache / blob(files.digest(path))) == files.digest(path) for path in paths)

    def _tell(self, count: int) -> None:
        self.told += count


@pytest.fixture(params=["local", "ssh"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Way]:
    if request.param == "local":
        machine = open_transport(
            Host(), HomePaths(tmp_path / "own"), {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        )
    else:
        server: Sshd = request.getfixturevalue("sshd")
        machine = open_transport(Host(ssh=server.alias), HomePaths(tmp_path / "own"), server.environ)
    yield Way(machine, tmp_path / "way")
    machine.close()


def rows(count: int, seed: int = 0) -> list[bytes]:
    """Give lines of about a kilobyte."""
    own = random.Random(seed)
    return [
        b'{"row": %d, "text": "%s"}\n' % (number, own.randbytes(own.randint(200, 800)).hex().encode())
        for number in range(count)
    ]


def test_everything_arrives_and_nothing_twice(way: Way) -> None:
    paths = [way.file(f"small-{number}", os.urandom(number * 50)) for number in range(300)]
    paths += [way.file("empty", b""), way.file("large", b"".join(rows(3000))), way.file("noise", os.urandom(2_000_000))]
    sent = way.send(*paths)
    assert way.has(*paths)
    assert way.told == sum(path.stat().st_size for path in paths)
    again = way.send(*paths)
    assert (again.files, again.wire_bytes) == (0, 0)
    assert way.told == sum(path.stat().st_size for path in paths)
    assert sent.wire_bytes < sent.bytes


def test_a_few_changed_rows_move_little(way: Way) -> None:
    lines = rows(8000)
    first = way.send(way.file("first", b"".join(lines)))
    own = random.Random(1)
    for number in own.sample(range(len(lines)), 8):
        lines[number] = b'{"row": "changed", "at": %d}\n' % number
    changed = way.file("second", b"".join(lines))
    second = way.send(changed)
    assert way.has(changed)
    assert second.wire_bytes < first.wire_bytes / 20
    longer = way.file("third", b"".join([b"one more in front\n", *lines, b"and one behind\n"]))
    third = way.send(longer)
    assert way.has(longer)
    assert third.wire_bytes < first.wire_bytes / 50


def test_a_cut_costs_only_what_was_on_its_way(sshd: Sshd, tmp_path: Path) -> None:
    machine = open_transport(Host(ssh=sshd.alias), HomePaths(tmp_path / "own"), sshd.environ)
    way = Way(machine, tmp_path / "way")
    paths = [way.file(f"noise-{number}", os.urandom(8_000_000)) for number in range(5)]

    def cut_half_way(count: int) -> None:
        way.told += count
        if way.told > 20_000_000:
            sshd.drop()

    with pytest.raises(HostUnreachable):
        send_blobs(machine, way.receiver, {files.digest(path): path for path in paths}, cut_half_way)
    went_on = way.send(*paths)
    assert way.has(*paths)
    assert went_on.wire_bytes < 32_000_000, "what had arrived is not sent again"
    machine.close()


def test_a_file_that_is_not_what_its_digest_says_is_named(way: Way) -> None:
    right, wrong = way.file("right", b"right"), way.file("wrong", os.urandom(300_000))
    wanted = {files.digest(right): right, files.digest(wrong): wrong}
    wrong.write_bytes(os.urandom(300_000))
    with pytest.raises(Damaged, match="wrong"):
        send_blobs(way.machine, way.receiver, wanted)
    assert way.has(right)
    assert len([path for path in (way.cache / "blobs").rglob("*") if path.is_file()]) == 1
    wrong.unlink()
    with pytest.raises(Damaged, match="wrong"):
        send_blobs(way.machine, way.receiver, wanted)


def test_a_cache_that_cannot_be_written_is_said_once(way: Way) -> None:
    way.receiver[-1] = "/proc/nowhere"
    with pytest.raises(HostError, match="/proc"):
        way.send(way.file("some", b"some"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_is_said_and_what_arrived_is_kept(way: Way) -> None:
    way.cache.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", way.cache], check=True)
    try:
        with pytest.raises(HostError, match="No space left"):
            way.send(*[way.file(f"noise-{number}", os.urandom(3_000_000)) for number in range(4)])
        small = way.file("small", b"small")
        (way.cache / "incoming").rename(way.cache / "full")
        for path in (way.cache / "full").iterdir():
            path.unlink()
        way.send(small)
        assert way.has(small)
    finally:
        subprocess.run(["umount", way.cache], check=True)


@pytest.mark.parametrize("said", ["garbage", "", "\\377\\377\\377\\377", "\\001\\000\\000\\000x"])
def test_a_receiver_that_talks_nonsense_is_an_error(said: str, way: Way) -> None:
    way.receiver = ["sh", "-c", f"printf '{said}'"]
    with pytest.raises(HostError):
        way.send(way.file("some", b"some"))


def test_names_outside_the_cache_are_refused_by_the_receiver(way: Way) -> None:
    with pytest.raises(GpujobError, match="digest"):
        send_blobs(way.machine, way.receiver, {"../../escape": way.file("some", b"some")})
    assert not (way.cache.parent / "escape").exists()


def test_two_at_once_do_no_harm(way: Way) -> None:
    from concurrent.futures import ThreadPoolExecutor

    paths = [way.file(f"noise-{number}", os.urandom(1_000_000)) for number in range(6)]
    wanted = {files.digest(path): path for path in paths}
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(send_blobs, way.machine, way.receiver, wanted) for _ in range(2)]:
            done.result()
    assert way.has(*paths)


def test_chunks_follow_the_content() -> None:
    data = b"".join(rows(2000))
    before = list(chunks.cut(data))
    assert b"".join(data[each.offset : each.offset + each.length] for each in before) == data
    assert all(each.length <= chunks.LONGEST for each in before)
    after = list(chunks.cut(b"x\n" * 5000 + data))
    assert len({each.hash for each in before} - {each.hash for each in after}) <= 2
    noise = os.urandom(1_000_000)
    assert len(list(chunks.cut(noise))) > 40
    assert [each.length for each in chunks.cut(b"\0" * 600_000)] == [262144, 262144, 75712]
    assert chunks.unpack(chunks.pack(before)) == before
    assert list(chunks.cut(b"")) == []
