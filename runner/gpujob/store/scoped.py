"""Credentials for one job: they reach its prefix and the shared blobs, nothing else, and expire."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from gpujob.core.errors import StoreDenied
from gpujob.core.layout import BLOBS, JobKeys
from gpujob.store import aws, urls
from gpujob.store.credentials import credentials

ROLE = "GPUJOB_STORE_ROLE"
"""The ARN of a role that may use the store; with it an agent gets a part of that role's rights, for a time."""

EXPIRATION = "AWS_CREDENTIAL_EXPIRATION"
"""When temporary credentials end, in ISO 8601, under the name AWS's own tools use."""

SHORTEST, LONGEST = 15 * 60, 12 * 3600
"""Seconds; what STS allows. A role's own limit, an hour unless it was raised, comes on top."""

_SESSION_NAME = 64
_TOO_LONG = re.compile(r"MaxSessionDuration|DurationSeconds", re.IGNORECASE)


def scoped_credentials(url: str, job_id: str, environ: Mapping[str, str], seconds: float) -> dict[str, str]:
    """Give the variables that open the store of `url` for one job, for `seconds`, as `credentials` gives them.

    Without a role in GPUJOB_STORE_ROLE, and where the store is not S3, they are the plain ones. Raises StoreDenied
    when the role cannot be had: credentials that can do more are never handed out in its place.
    """
    plain = credentials(url, environ)
    role = environ.get(ROLE)
    if not role or urls.scheme(url) not in urls.S3:
        return plain
    given = _assume(role, job_id, policy(url, job_id), _seconds(seconds), {**environ, **plain})
    return {
        **plain,
        "AWS_ACCESS_KEY_ID": given["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": given["SecretAccessKey"],
        "AWS_SESSION_TOKEN": given["SessionToken"],
        EXPIRATION: given["Expiration"].isoformat(),
    }


def policy(url: str, job_id: str) -> dict[str, Any]:
    """Give the session policy: read and write the job's own prefix but for its plan, read and add shared blobs.

    Listing is limited to both. Deleting or listing blobs beyond that would reach other jobs.
    """
    parts = urlsplit(urls.without_credentials(url))
    bucket = f"arn:aws:s3:::{parts.netloc}"
    root = f"{parts.path.strip('/')}/".lstrip("/")
    keys = JobKeys(job_id)
    job, blobs = f"{root}{keys.prefix}*", f"{root}{BLOBS}*"
    write = ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"]
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": [*write, "s3:DeleteObject"], "Resource": f"{bucket}/{job}"},
            {"Effect": "Allow", "Action": write, "Resource": f"{bucket}/{blobs}"},
            {
                "Effect": "Allow",
                "Action": "s3:ListBucket",
                "Resource": bucket,
                "Condition": {"StringLike": {"s3:prefix": [job, blobs]}},
            },
            {
                "Effect": "Deny",
                "Action": ["s3:PutObject", "s3:DeleteObject"],
                "Resource": f"{bucket}/{root}{keys.plan}",
            },
        ],
    }


def _seconds(wanted: float) -> int:
    return int(min(max(wanted, SHORTEST), LONGEST))


def _assume(role: str, job_id: str, document: dict[str, Any], seconds: int, env: Mapping[str, str]) -> dict[str, Any]:
    what = f"the role {role}"
    answer = aws.ask(
        what,
        lambda: aws.client("sts", env).assume_role(
            RoleArn=role,
            RoleSessionName=f"gpujob-{job_id}"[:_SESSION_NAME],
            Policy=json.dumps(document, separators=(",", ":")),
            DurationSeconds=seconds,
        ),
    )
    if not answer.code:
        return dict(answer.values["Credentials"])
    hint = f"let its trust policy allow sts:AssumeRole to your key; without {ROLE} the agent gets the key itself"
    if _TOO_LONG.search(answer.message):
        name = role.rpartition("/")[2]
        hint = f"allow it longer sessions: aws iam update-role --role-name {name} --max-session-duration {seconds}"
    raise StoreDenied("take on", what, f"the server answers {answer.code}: {answer.message[:300]}", hint)
