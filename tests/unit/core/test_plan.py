from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpujob.core.errors import CheckError, UsageError
from gpujob.core.plan import Plan, is_local_model, make_plan, new_job_id
from gpujob.core.spec import JobSpec

TRAIN = {"model": "org/m", "data": {"path": "rows.jsonl"}}


def plan(name: str | None = None, **values: Any) -> Plan:
    spec = JobSpec.model_validate({"name": "x", **({} if "train" in values else {"run": "true"}), **values})
    return make_plan(spec, job_id="x-abc234", folder="/jobs/x", default_store="/home/store", now=12.5, name=name)


def test_a_run_job_takes_its_code_and_data_along() -> None:
    assert plan(data="../rows").local_parts == {"code": "/jobs/x", "data": "/jobs/rows"}
    assert plan(workdir="src").local_parts == {"code": "/jobs/x/src"}
    assert plan().command == "true"


def test_a_train_job_takes_its_files_along() -> None:
    data = {"path": "/abs/rows.jsonl", "validation": "val.jsonl"}
    made = plan(train={"model": "./models/m", "data": data})
    parts = {"data": "/abs/rows.jsonl", "validation": "/jobs/x/val.jsonl", "model": "/jobs/x/models/m"}
    assert made.local_parts == parts
    assert made.command is None


def test_a_hub_model_and_a_share_do_not_travel() -> None:
    made = plan(train={"model": "org/m", "data": {"path": "rows.jsonl", "validation": "5%"}})
    assert made.local_parts == {"data": "/jobs/x/rows.jsonl"}


@pytest.mark.parametrize(
    ("store", "url"),
    [(None, "/home/store"), ("s3://b/p/", "s3://b/p"), ("out/", "/jobs/x/out"), ("/abs", "/abs")],
)
def test_the_store_is_decided(store: str | None, url: str) -> None:
    assert plan(store=store).store == url


def test_another_name_replaces_the_spec_s() -> None:
    made = plan(name="other")
    assert (made.name, made.spec.name) == ("other", "other")


def test_another_name_that_cannot_be_one_is_refused() -> None:
    with pytest.raises(UsageError, match="lower-case"):
        plan(name="Not a name")


@pytest.mark.parametrize(
    ("values", "note"),
    [
        ({"train": {**TRAIN, "batch": "auto"}}, "batch: auto means 1 x 8 here"),
        ({}, "nothing bounds the paid time"),
        ({"limits": {"cost": 8}}, "its cost cannot be limited"),
        ({"limits": {"cost": 8}}, "nothing bounds the paid time"),
        (
            {"limits": {"duration": "10h"}, "hosts": [{"price_per_hour": 0.44}]},
            "10 h 00 min on the dearest host cost 4.40",
        ),
    ],
)
def test_decisions_a_person_should_know_are_noted(values: dict[str, Any], note: str) -> None:
    assert note in " / ".join(plan(**values).notes)


@pytest.mark.parametrize("limits", [{"duration": "10h"}, {"cost": 8}])
def test_a_bounded_job_has_nothing_to_note_about_bounds(limits: dict[str, Any]) -> None:
    notes = plan(limits=limits, hosts=[{"price_per_hour": 1}]).notes
    assert not [note for note in notes if "nothing bounds" in note or "cannot be limited" in note]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"hosts": [{"ssh": "box"}], "store": "s3://b/p"}, "box is another machine"),
        ({"image": {"build": "images"}}, "without a container"),
        ({"image": "repo:tag"}, "without a container"),
        ({"on_finish": ["sudo poweroff"]}, "nothing is run"),
        ({"train": {**TRAIN, "method": "dpo"}}, "dpo is not built in"),
        ({"train": {**TRAIN, "method": "pretrain"}}, "pretrain is not built in"),
        ({"train": {**TRAIN, "adapter": "qlora"}}, "qlora is not built in"),
        ({"train": {**TRAIN, "model": "s3://b/m"}}, "cannot be read from a URL"),
        ({"train": {**TRAIN, "data": {"path": "s3://b/rows.jsonl"}}}, "cannot be read from a URL"),
        ({"data": "https://x/rows"}, "cannot be read from a URL"),
    ],
)
def test_what_cannot_be_done_yet_is_refused_before_anything_is_paid(values: dict[str, Any], said: str) -> None:
    with pytest.raises(CheckError, match=said):
        plan(**values)


def test_all_refusals_are_named_at_once() -> None:
    with pytest.raises(CheckError, match=r"box is another machine.*qlora is not built in"):
        plan(hosts=[{"ssh": "box"}], train={**TRAIN, "adapter": "qlora"})


def test_no_container_is_no_image() -> None:
    assert plan(image="none").spec.image == "none"


@given(
    st.sampled_from(["auto", "10m", "50 steps", 12.5]),
    st.one_of(st.none(), st.floats(0.1, 1e7)),
    st.one_of(st.none(), st.just("5%"), st.just("val.jsonl")),
    st.lists(st.floats(0, 100), min_size=1, max_size=3),
)
def test_a_plan_reads_back_from_the_store_exactly(
    interval: object, duration: float | None, validation: str | None, prices: list[float]
) -> None:
    made = plan(
        train={
            **TRAIN,
            "data": {"path": "r", "validation": validation},
            "lora": {"r": 8},
            "args": {"optim": "adamw_torch"},
        },
        checkpoint={"interval": interval},
        limits={"duration": duration},
        hosts=[{"price_per_hour": price} for price in prices],
        env={"A": " b "},
        secrets=["HF_TOKEN"],
    )
    assert Plan.decode(made.encode()) == made
    assert Plan.decode(made.encode()).encode() == made.encode()
    assert Plan.model_validate(made.summary()) == made


def test_a_job_id_is_the_name_and_six_letters() -> None:
    first, second = new_job_id("x", Random(1)), new_job_id("x", Random(2))
    assert first != second
    for job_id in (first, second):
        name, _, letters = job_id.rpartition("-")
        assert name == "x"
        assert len(letters) == 6
        assert set(letters) <= set("abcdefghijklmnopqrstuvwxyz234567")


@pytest.mark.parametrize(
    ("model", "local"),
    [
        ("gpt2", False),
        ("Qwen/Qwen2.5-1.5B-Instruct", False),
        ("./m", True),
        ("../m", True),
        ("/m", True),
        ("a/b/c", True),
        ("my model", True),
        ("s3://b/m", False),
    ],
)
def test_a_path_is_told_from_a_hub_id(model: str, local: bool) -> None:
    assert is_local_model(model) is local
