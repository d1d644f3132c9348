"""What only an S3 bucket can be asked: its clock, its uploads, its rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from gpujob.store import aws, urls
from gpujob.store.aws import Answer
from gpujob.store.findings import POLICY, Finding, error, ok, warn
from gpujob.store.lifecycle import Place, lifecycle

REFUSED_AFTER, WORRYING_AFTER = 15 * 60, 60
"""Seconds a clock may be wrong: S3 refuses what is signed at another time."""
_UNSEEN = 2
"""Seconds; a date has no fractions, and an answer takes its time."""


class Bucket:
    """The bucket of a store, through AWS's own client; every method may raise what `aws.ask` raises."""

    def __init__(self, url: str, env: Mapping[str, str]) -> None:
        parts = urlsplit(urls.without_credentials(url))
        root = parts.path.strip("/")
        self.place = Place(parts.netloc, f"{root}/" if root else "", aws.endpoint("s3", env) or "")
        self._env = env

    def clock(self, now: Callable[[], float]) -> Iterator[Finding]:
        """Compare this computer's clock with the server's. Every answer carries its time, a refusal as well."""
        before = now()
        date = self._ask("head_bucket").headers.get("date")
        if date:
            yield skew(parsedate_to_datetime(date).timestamp() - (before + now()) / 2)

    def uploads(self, key: str) -> Iterator[Finding]:
        """See whether an upload can be given up."""
        where = {"Key": f"{self.place.root}{key}"}
        begun = self._ask("create_multipart_upload", **where)
        code = begun.code or self._ask("abort_multipart_upload", **where, UploadId=begun.values["UploadId"]).code
        if code:
            text = f"s3:AbortMultipartUpload is missing ({code}): what an upload that broke off has sent stays"
            yield error("rights", text, f"allow s3:AbortMultipartUpload; {POLICY}")
        else:
            yield ok("rights", "s3:AbortMultipartUpload")

    def rules(self) -> Iterator[Finding]:
        """Look at lifecycle rules and versioning, where that is allowed and the server has such things."""
        versioning, rules = self._ask("get_bucket_versioning"), self._ask("get_bucket_lifecycle_configuration")
        if rules.code not in ("", "NoSuchLifecycleConfiguration"):
            hint = "allow s3:GetLifecycleConfiguration, or see to it yourself that uploads which broke off are removed"
            yield warn("lifecycle", f"the rules cannot be seen ({rules.code})", hint)
        else:
            versioned = versioning.values.get("Status") == "Enabled"
            yield from lifecycle(self.place, rules.values.get("Rules", []), versioned)

    def sweep(self, prefix: str) -> None:
        """Remove below `prefix` what deleting leaves: uploads that broke off, and old versions. As far as allowed."""
        below = {"Prefix": f"{self.place.root}{prefix}"}
        for each in self._ask("list_multipart_uploads", **below).values.get("Uploads", ()):
            self._ask("abort_multipart_upload", Key=each["Key"], UploadId=each["UploadId"])
        if self._ask("get_bucket_versioning").values.get("Status"):
            found = self._ask("list_object_versions", **below).values
            for each in (*found.get("Versions", ()), *found.get("DeleteMarkers", ())):
                self._ask("delete_object", Key=each["Key"], VersionId=each["VersionId"])

    def _ask(self, act: str, **words: Any) -> Answer:
        return aws.ask(self.place.bucket, lambda: getattr(self._client, act)(Bucket=self.place.bucket, **words))

    @cached_property
    def _client(self) -> Any:
        return aws.client("s3", self._env)


def skew(seconds: float) -> Finding:
    """Judge how far the server's clock is ahead of this computer's."""
    if abs(seconds) < _UNSEEN:
        return ok("clock", "this computer's and the server's agree")
    text = f"this computer's is {abs(seconds):.0f} s {'behind' if seconds > 0 else 'ahead of'} the server's"
    hint = "set the clock by NTP (timedatectl set-ntp true), here and on the rental"
    if abs(seconds) > REFUSED_AFTER:
        return error("clock", f"{text}; more than 15 minutes are refused", hint)
    return warn("clock", text, hint) if abs(seconds) > WORRYING_AFTER else ok("clock", text)
