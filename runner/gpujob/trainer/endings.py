"""How a training ends other than by finishing: one exception that carries the verdict."""

from __future__ import annotations

from gpujob.core.reasons import Reason
from gpujob.core.records import Verdict

SIGTERM_EXIT = 143
"""What a shell gives a program that SIGTERM ended."""


class Ended(Exception):
    """The training ends here, for a reason we know; `sentence` is plain and complete."""

    def __init__(self, reason: Reason, sentence: str) -> None:
        super().__init__(sentence)
        self.verdict = Verdict(reason=reason, sentence=sentence)

    @property
    def exit_code(self) -> int:
        """What the process exits with."""
        return SIGTERM_EXIT if self.verdict.reason is Reason.PREEMPTED else 1


def bad_spec(sentence: str) -> Ended:
    """Make the ending of a job whose settings cannot work."""
    return Ended(Reason.BAD_SPEC, sentence)


def bad_data(sentence: str) -> Ended:
    """Make the ending of a job whose rows cannot be trained on."""
    return Ended(Reason.BAD_DATA, sentence)
