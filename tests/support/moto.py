"""A second S3 server, of another kind: moto, which keeps everything in memory and allows everybody everything."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from botocore.exceptions import BotoCoreError

from gpujob.store import aws
from support.desk import until
from support.sshd import free_port


@dataclass(frozen=True)
class Moto:
    """A running server."""

    endpoint: str
    bucket: str = "gpujob-moto"

    @property
    def env(self) -> dict[str, str]:
        """What a client needs to know, as environment variables."""
        keys = {"AWS_ACCESS_KEY_ID": "moto-key", "AWS_SECRET_ACCESS_KEY": "moto-secret"}
        return {**keys, "AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": "us-east-1"}


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moto]:
    """One moto server for the whole test run, with one bucket."""
    port, log = free_port(), tmp_path_factory.mktemp("moto") / "log"
    argv = [str(Path(sys.executable).with_name("moto_server")), "-H", "127.0.0.1", "-p", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(argv, stdout=output, stderr=output)
    try:
        server = Moto(f"http://127.0.0.1:{port}")
        until(lambda: _made(server) or process.poll() is not None, "moto")
        assert process.poll() is None, log.read_text()
        yield server
    finally:
        process.kill()
        process.wait(20)


def _made(server: Moto) -> bool:
    try:
        aws.client("s3", server.env).create_bucket(Bucket=server.bucket)
    except BotoCoreError:
        return False
    return True
