"""What a bucket's rules mean for checkpoints, rule by rule."""

from __future__ import annotations

import json
import shlex

import pytest

from gpujob.store.lifecycle import Place, lifecycle

PLACE = Place("my-bucket", "team/gpujob/", "https://s3.example")
ABORT = {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 3}}


def rule(prefix="team/gpujob/", **what):
    return {"ID": "theirs", "Status": "Enabled", "Filter": {"Prefix": prefix}, **what}


def found(*rules, versioned=False, place=PLACE):
    return {finding.check: finding for finding in lifecycle(place, rules, versioned)}


def levels(*rules, **more):
    return [finding.level.value for finding in lifecycle(PLACE, rules, more.get("versioned", False))]


def rules_of(hint):
    words = shlex.split(hint)
    assert words[:3] == ["aws", "s3api", "put-bucket-lifecycle-configuration"]
    assert words[3:-1] == ["--bucket", "my-bucket", "--endpoint-url", "https://s3.example", "--lifecycle-configuration"]
    return json.loads(words[-1])["Rules"]


@pytest.mark.parametrize("prefix", ["", "team/", "team/gpujob/"])
def test_a_rule_that_removes_unfinished_uploads_is_enough(prefix):
    assert levels(rule(prefix, **ABORT)) == ["ok", "ok"]


@pytest.mark.parametrize(
    "theirs",
    [
        rule("other/", **ABORT),
        rule("team/gpujob/jobs/", **ABORT),
        {**rule(**ABORT), "Status": "Disabled"},
        {"ID": "old form", "Status": "Enabled", "Prefix": "elsewhere/", **ABORT},
    ],
)
def test_one_for_something_else_is_not_and_stays(theirs):
    advice = found(theirs)["lifecycle"]
    assert advice.level.value == "warn"
    kept, ours = rules_of(advice.hint)
    assert kept == theirs, "setting rules replaces them all"
    assert ours["Filter"] == {"Prefix": "team/gpujob/"}
    assert levels(kept, ours) == ["ok", "ok"]


def test_versioning_costs_unless_old_versions_are_removed():
    both = found(versioned=True)
    assert [both[name].level.value for name in ("lifecycle", "versioning")] == ["warn", "warn"]
    assert both["lifecycle"].hint == both["versioning"].hint, "one command, or the second would undo the first"
    assert levels(*rules_of(both["versioning"].hint), versioned=True) == ["ok", "ok"]
    assert levels(rule(**ABORT), versioned=True) == ["ok", "warn"]


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        (rule("team/", Expiration={"Days": 30}), "deletes what lies here after 30 days"),
        (rule("team/gpujob/jobs/", Expiration={"Days": 1}), "deletes what lies here after 1 days"),
        (rule("", Transitions=[{"Days": 1, "StorageClass": "DEEP_ARCHIVE"}]), "moves what lies here to DEEP_ARCHIVE"),
    ],
)
def test_a_rule_that_takes_checkpoints_away_is_told(theirs, said):
    first = next(lifecycle(PLACE, [theirs, rule(**ABORT)], False))
    assert (first.check, first.level.value) == ("lifecycle", "warn")
    assert said in first.text


@pytest.mark.parametrize(
    "harmless",
    [
        rule("other/", Expiration={"Days": 1}),
        {"ID": "tagged", "Status": "Enabled", "Filter": {"Tag": {"Key": "a", "Value": "b"}}, "Expiration": {"Days": 1}},
        rule(Expiration={"ExpiredObjectDeleteMarker": True}),
        rule(Transitions=[{"Days": 30, "StorageClass": "STANDARD_IA"}]),
    ],
)
def test_a_rule_that_does_not_is_left_alone(harmless):
    assert levels(harmless, rule(**ABORT)) == ["ok", "ok"]


def test_a_store_at_the_top_of_its_bucket():
    assert json.loads(shlex.split(found(place=Place("b", ""))["lifecycle"].hint)[-1])["Rules"][0]["Filter"] == {
        "Prefix": ""
    }
