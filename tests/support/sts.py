"""The S3 server with the service that lends roles, and credentials that may do less than everything.

env = lender.limited({"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"})
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpujob.store import aws
from support.s3 import S3Server

ROLE = "arn:aws:iam::role/gpujob"


class Lender(S3Server):
    """A server whose key may take on ROLE, which may do everything."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "127.0.0.1", "gpujob-roles")
        identities, iam = folder / "identities.json", folder / "iam.json"
        identities.write_text(json.dumps({"identities": [self._admin()]}))
        iam.write_text(json.dumps(_IAM))
        self._command += [f"-s3.config={identities}", f"-s3.iam.config={iam}"]

    @property
    def with_role(self) -> dict[str, str]:
        """The environment of a person who lets rentals have the role."""
        return {**self.env, "GPUJOB_STORE_ROLE": ROLE}

    def limited(self, *statements: dict[str, Any]) -> dict[str, str]:
        """Give the environment of somebody who may do what the statements say, and no more."""
        client = aws.client("sts", self.env)
        policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
        given = client.assume_role(RoleArn=ROLE, RoleSessionName="limited", Policy=policy)["Credentials"]
        return {
            **self.env,
            "AWS_ACCESS_KEY_ID": given["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": given["SecretAccessKey"],
            "AWS_SESSION_TOKEN": given["SessionToken"],
        }

    def _admin(self) -> dict[str, Any]:
        keys = {"accessKey": self.env["AWS_ACCESS_KEY_ID"], "secretKey": self.env["AWS_SECRET_ACCESS_KEY"]}
        return {"name": "admin", "credentials": [keys], "actions": ["Admin", "Read", "Write", "List", "Tagging"]}


_EVERYBODY = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": ["sts:AssumeRole"]}
_EVERYTHING = {"Effect": "Allow", "Action": ["s3:*", "sts:*"], "Resource": "*"}
_IAM = {
    "sts": {
        "tokenDuration": "1h",
        "maxSessionLength": "12h",
        "issuer": "tests",
        "signingKey": "dGVzdC1zaWduaW5nLWtleS0zMi1jaGFyYWN0ZXJzLWxvbmc=",
    },
    "policy": {"defaultEffect": "Deny", "storeType": "memory"},
    "roles": [
        {
            "roleName": "gpujob",
            "roleArn": ROLE,
            "trustPolicy": {"Version": "2012-10-17", "Statement": [_EVERYBODY]},
            "attachedPolicies": ["Everything"],
        }
    ],
    "policies": [{"name": "Everything", "document": {"Version": "2012-10-17", "Statement": [_EVERYTHING]}}],
}


@pytest.fixture(scope="session")
def lender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lender]:
    """One server with roles for the whole test run."""
    server = Lender(tmp_path_factory.mktemp("sts"))
    server.start()
    try:
        yield server
    finally:
        server.stop()
