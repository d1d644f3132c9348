"""Names that several rooms must read alike."""

from __future__ import annotations

import pytest

from gpujob.core.layout import step_in_name


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("checkpoint-12", 12),
        ("12", 12),
        ("step_007", 7),
        ("v2-999999999999", 999999999999),
        ("v2-1999999999999", None),
        ("resume", None),
        (".saving", None),
        ("checkpoint-\u0661\u0662", None),
        ("checkpoint-12\n", None),
        ("", None),
    ],
)
def test_the_step_is_what_a_name_ends_in(name: str, step: int | None) -> None:
    assert step_in_name(name) == step
