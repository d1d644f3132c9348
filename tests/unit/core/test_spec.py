import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gpujob.core.spec import Host, JobSpec, Steps

DURATIONS = st.one_of(st.floats(0.1, 1e6), st.sampled_from(["90s", "15m", "1h30m"]))
TRAIN = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["org/m", "./models/m"]),
        "data": st.fixed_dictionaries(
            {"path": st.just("rows.jsonl")},
            optional={"validation": st.one_of(st.sampled_from(["5%", "val.jsonl", None]), st.floats(0.01, 0.9))},
        ),
    },
    optional={
        "adapter": st.sampled_from(["lora", "none"]),
        "learning_rate": st.floats(1e-8, 1),
        "lora": st.fixed_dictionaries({}, optional={"r": st.integers(1, 64), "target_modules": st.just(["q", "v"])}),
        "max_steps": st.integers(1, 10**9),
        "batch": st.just("auto"),
        "prompts": st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"))),
        "args": st.dictionaries(
            st.text("abc_", min_size=1),
            st.recursive(
                st.none()
                | st.booleans()
                | st.integers(-(2**60), 2**60)
                | st.floats(allow_nan=False, allow_infinity=False),
                lambda inner: st.lists(inner) | st.dictionaries(st.text("ab"), inner),
                max_leaves=5,
            ),
        ),
    },
)
SPECS = st.fixed_dictionaries(
    {"name": st.just("x"), "train": TRAIN},
    optional={
        "checkpoint": st.fixed_dictionaries(
            {}, optional={"interval": st.one_of(DURATIONS, st.sampled_from(["auto", "50 steps"])), "keep": st.just(2)}
        ),
        "limits": st.fixed_dictionaries({}, optional={"duration": DURATIONS, "cost": st.floats(0, 1e6)}),
        "image": st.sampled_from(["none", "repo/image:1.2", {"build": "images"}]),
        "recovery": st.fixed_dictionaries({"max_preemptions": st.one_of(st.integers(0, 99), st.just("unlimited"))}),
        "env": st.dictionaries(st.sampled_from(["A", "B_1"]), st.just(" kept as it is ")),
        "hosts": st.lists(st.just({"ssh": "box", "price_per_hour": 0.44}), min_size=1),
    },
)


@given(SPECS)
def test_a_spec_reads_back_from_its_own_json_exactly(values: dict[str, Any]) -> None:
    spec = JobSpec.model_validate(values)
    assert JobSpec.model_validate_json(spec.model_dump_json()) == spec


def test_what_is_left_out_has_its_default() -> None:
    spec = JobSpec.model_validate({"name": "x", "run": "true"})
    assert spec.hosts == (Host(),)
    assert spec.limits.stall == 900
    assert spec.checkpoint.keep == 3


def test_an_interval_in_steps_is_steps() -> None:
    spec = JobSpec.model_validate({"name": "x", "run": "true", "checkpoint": {"interval": "50 steps"}})
    assert spec.checkpoint.interval == Steps(steps=50)


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a" * 49, "a\n", "é"])
def test_a_name_that_could_not_be_a_key_everywhere_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        JobSpec(name=name, run="true")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_number_that_json_cannot_keep_is_refused(number: str) -> None:
    train = f'{{"model": "m", "data": {{"path": "d"}}, "args": {{"deep": [{number}]}}}}'
    with pytest.raises(ValidationError):
        JobSpec.model_validate_json(f'{{"name": "x", "train": {train}}}')


@pytest.mark.parametrize("programs", [{}, {"run": "true", "train": {"model": "m", "data": {"path": "d"}}}])
def test_a_job_has_exactly_one_program(programs: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="and not both"):
        JobSpec.model_validate_json(json.dumps({"name": "x", **programs}))
