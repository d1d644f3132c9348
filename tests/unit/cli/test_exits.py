"""The table from errors and outcomes to exit codes."""

from __future__ import annotations

import pytest

from gpujob.cli.exits import MEANINGS, Exit, of_error, of_outcome
from gpujob.core import errors
from gpujob.core.reasons import Reason


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("a", "b", "c"), 2),
        (errors.NotFoundJob("a", "b", "c"), 2),
        (errors.SpecError("job.yaml", ()), 10),
        (errors.CheckError("a", "b", "c"), 11),
        (errors.ResumeRefused("a", "b", "c"), 11),
        (errors.StoreDenied("a", "b", "c"), 20),
        (errors.Damaged("a", "b", "c"), 20),
        (errors.Fenced("a", "b", "c"), 20),
        (errors.HostError("a", "b", "c"), 21),
    ],
)
def test_errors(error: errors.GpujobError, code: int) -> None:
    assert of_error(error) == code


def test_no_error_of_ours_counts_as_a_bug() -> None:
    def below(kind: type[errors.GpujobError]) -> set[type[errors.GpujobError]]:
        return {kind, *(each for child in kind.__subclasses__() for each in below(child))}

    for kind in below(errors.GpujobError) - {errors.GpujobError}:
        error = kind.__new__(kind)
        assert of_error(error) is not Exit.UNEXPECTED, kind


@pytest.mark.parametrize("reason", Reason)
def test_outcomes(reason: Reason) -> None:
    special = {Reason.DONE: 0, Reason.CANCELLED: 13, Reason.LIMIT_TIME: 14, Reason.LIMIT_COST: 14}
    assert of_outcome(reason) == special.get(reason, 12)


def test_every_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Exit)
