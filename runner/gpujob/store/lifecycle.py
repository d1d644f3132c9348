"""What a bucket's lifecycle rules and versioning mean for checkpoints. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpujob.store.findings import Finding, ok, warn

Rule = dict[str, Any]
"""A lifecycle rule as S3 gives it."""

_DAYS = 7
_READABLE_AT_ONCE = {"STANDARD", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER_IR"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store lies: `root` is "" or ends in a slash, `endpoint` is "" for AWS itself."""

    bucket: str
    root: str
    endpoint: str = ""


def lifecycle(place: Place, rules: Sequence[Rule], versioned: bool) -> Iterator[Finding]:
    """Say which rules are missing and which are dangerous, and what versioning costs."""
    ours = [rule for rule in rules if rule.get("Status") == "Enabled" and _touches(rule, place.root)]
    covering = [rule for rule in ours if place.root.startswith(_prefix(rule))]
    yield from (warn("lifecycle", text, _HARMFUL) for text in map(_harm, ours) if text)
    wanted = [] if any("AbortIncompleteMultipartUpload" in rule for rule in covering) else [_unfinished(place)]
    limited = any("NoncurrentVersionExpiration" in rule for rule in covering)
    if versioned and not limited:
        wanted.append(_old_versions(place))
    if "AbortIncompleteMultipartUpload" in json.dumps(wanted):
        text = "uploads that broke off are never removed, and are billed: no rule AbortIncompleteMultipartUpload"
        yield warn("lifecycle", text, _command(place, [*rules, *wanted]))
    else:
        yield ok("lifecycle", "uploads that broke off are removed")
    if not versioned:
        yield ok("versioning", "off: what is deleted is gone, and costs nothing")
    elif limited:
        yield ok("versioning", "on, and old versions are removed")
    else:
        yield warn("versioning", _COSTS, _command(place, [*rules, *wanted]))


_HARMFUL = "limit that rule to other prefixes: a job would lose its checkpoints, and say that they are damaged"
_COSTS = (
    "on: deleted checkpoints and replaced heartbeats stay as old versions, and are billed (480 MB every ten minutes"
    " are 23 GB a night)"
)


def _harm(rule: Rule) -> str:
    """Say how a rule destroys what lies in the store; empty when it does not."""
    name = rule.get("ID") or "without a name"
    after = rule.get("Expiration", {})
    if "Days" in after or "Date" in after:
        when = f"after {after['Days']} days" if "Days" in after else f"on {after['Date']:%Y-%m-%d}"
        return f"the rule {name} deletes what lies here {when}"
    slow = sorted({each["StorageClass"] for each in rule.get("Transitions", ())} - _READABLE_AT_ONCE)
    return f"the rule {name} moves what lies here to {slow[0]}, where it cannot be read at once" if slow else ""


def _touches(rule: Rule, root: str) -> bool:
    """Say whether a rule reaches anything below `root`. Objects of ours have no tags."""
    where = rule.get("Filter", {})
    if "Tag" in where or where.get("And", {}).get("Tags"):
        return False
    return _prefix(rule).startswith(root) or root.startswith(_prefix(rule))


def _prefix(rule: Rule) -> str:
    where = rule.get("Filter", {})
    return str(where.get("Prefix") or where.get("And", {}).get("Prefix") or rule.get("Prefix") or "")


def _unfinished(place: Place) -> Rule:
    return {
        "ID": "gpujob-unfinished-uploads",
        "Status": "Enabled",
        "Filter": {"Prefix": place.root},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": _DAYS},
    }


def _old_versions(place: Place) -> Rule:
    return {
        "ID": "gpujob-old-versions",
        "Status": "Enabled",
        "Filter": {"Prefix": place.root},
        "Expiration": {"ExpiredObjectDeleteMarker": True},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 1},
    }


def _command(place: Place, rules: Sequence[Rule]) -> str:
    """Give the command that sets `rules`. It replaces all there are, so it must name those as well."""
    document = json.dumps({"Rules": rules}, default=lambda moment: moment.isoformat())
    words = ["aws", "s3api", "put-bucket-lifecycle-configuration", "--bucket", place.bucket]
    words += ["--endpoint-url", place.endpoint] if place.endpoint else []
    return shlex.join([*words, "--lifecycle-configuration", document])
