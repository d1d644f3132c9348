import random

from hypothesis import given
from hypothesis import strategies as st

from gpujob.core.records import CheckpointRef
from gpujob.core.retention import to_drop


def ref(step: int, generation: int = 1) -> CheckpointRef:
    return CheckpointRef(step=step, generation=generation, digest=f"{generation}:{step}", bytes=1, committed_at=0.0)


LISTS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 5)), unique=True).map(
    lambda keys: [ref(*k) for k in keys]
)


def test_the_oldest_go_first() -> None:
    assert to_drop([ref(40), ref(30), ref(20), ref(10)], keep=2) == [ref(10), ref(20)]


def test_a_new_checkpoint_of_a_lower_step_outlives_what_was_passed_over() -> None:
    damaged = [ref(120), ref(110), ref(100)]
    assert to_drop([*damaged, ref(90, generation=2)], keep=3) == [ref(100)]


@given(LISTS, st.integers(-5, 10), st.randoms())
def test_the_newest_stay_whatever_is_asked_and_in_whatever_order(
    refs: list[CheckpointRef], keep: int, shuffler: random.Random
) -> None:
    dropped = to_drop(refs, keep)
    kept = [each for each in refs if each not in dropped]
    assert len(kept) == min(len(refs), max(keep, 2))
    assert all((old.generation, old.step) < (new.generation, new.step) for old in dropped for new in kept)
    shuffled = list(refs)
    shuffler.shuffle(shuffled)
    assert to_drop(shuffled, keep) == dropped


@given(LISTS, st.integers(0, 10))
def test_dropping_twice_drops_nothing_more(refs: list[CheckpointRef], keep: int) -> None:
    dropped = to_drop(refs, keep)
    assert to_drop([each for each in refs if each not in dropped], keep) == []
