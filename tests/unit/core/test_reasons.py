"""The table of reasons."""

from __future__ import annotations

from gpujob.core.reasons import OUTCOMES, Budget, Reason


def test_every_reason_has_an_outcome_with_a_meaning():
    assert set(OUTCOMES) == set(Reason)
    assert all(outcome.meaning for outcome in OUTCOMES.values())


def test_whatever_may_be_tried_again_spends_a_budget_and_nothing_else_does():
    for reason, outcome in OUTCOMES.items():
        assert outcome.again == (outcome.budget is not Budget.NONE), reason


def test_only_losing_the_machine_spends_preemptions():
    lost = {reason for reason, outcome in OUTCOMES.items() if outcome.budget is Budget.PREEMPTIONS}
    assert lost == {Reason.PREEMPTED, Reason.HOST_GONE, Reason.NO_CAPACITY}


def test_a_reason_reads_as_its_name():
    assert f"{Reason.OOM}" == "OOM"
