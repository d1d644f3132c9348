from __future__ import annotations

import threading

import pytest

from gpujob import bundle, locks
from gpujob.checkpoints import head as heads
from gpujob.client.cancel import cancel
from gpujob.client.journal import Journal
from gpujob.client.secrets import JobSecrets
from gpujob.client.submit import submit
from gpujob.core.errors import NotFound, StoreError, StoreUnavailable, UsageError
from gpujob.core.job import State
from gpujob.core.layout import HomePaths, JobKeys
from gpujob.core.moves import CancelRequested, Settled
from gpujob.core.plan import Plan
from gpujob.store.memory import MemoryStore
from support.client import JOB_ID, Clock, make_plan, make_settings

KEYS = JobKeys(JOB_ID)


@pytest.fixture
def settings(tmp_path):
    return make_settings(tmp_path)


@pytest.fixture
def packed(tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print('hello')")
    return bundle.pack({"code": code})


def put(settings, packed, store=None, plan=None, woken=None):
    return submit(
        plan or make_plan(),
        packed,
        JobSecrets(values={"A": "open-sesame"}),
        settings,
        store or MemoryStore(),
        clock=Clock(),
        wake=(woken if woken is not None else []).append,
    )


class Careless(MemoryStore):
    """A remote store that takes conditions and ignores them."""

    def put(self, key, data, *, if_absent=False, if_match=None):
        return super().put(key, data)


def test_a_remote_store_that_ignores_conditions_is_refused_before_anything_is_noted(settings, packed):
    with pytest.raises(StoreError, match="create-if-absent"):
        put(settings, packed, Careless("s3://bucket/jobs"))
    assert Journal(settings.home).ids() == []


def test_everything_lies_in_the_store_before_the_job_begins(settings, packed):
    store, woken = MemoryStore(), []
    done = put(settings, packed, store, woken=woken)
    assert done.job_id == JOB_ID
    assert done.shipped.sent_files == 1
    assert Plan.decode(store.get(KEYS.plan)) == make_plan()
    assert bundle.read(store, JOB_ID) == packed.bundle
    assert heads.read(store, JOB_ID).attempt == 0
    assert Journal(settings.home).read(JOB_ID).job.state is State.ACQUIRING
    assert woken == [settings]
    assert not settings.home.submitting(JOB_ID).exists()


def test_an_active_job_of_the_name_is_refused_with_its_id(settings, packed):
    put(settings, packed)
    other = make_plan("night-shift-zzz999")
    with pytest.raises(UsageError, match=JOB_ID):
        put(settings, packed, plan=other)
    assert Journal(settings.home).ids() == [JOB_ID]
    Journal(settings.home).apply(JOB_ID, CancelRequested(1.0))
    with pytest.raises(UsageError, match="STOPPING"):
        put(settings, packed, plan=other)


def test_the_name_is_free_again_when_the_job_is_over(settings, packed):
    put(settings, packed)
    journal = Journal(settings.home)
    journal.update(JOB_ID, lambda entry: entry.model_copy(update={"job": entry.job.model_copy(update=OVER)}))
    put(settings, packed, plan=make_plan("night-shift-zzz999"))


OVER = {"state": State.FAILED, "settled": True}


def test_of_two_submits_of_a_name_at_once_one_wins(settings, packed):
    plans = [make_plan(f"night-shift-{number}") for number in range(4)]
    refused, store = [], MemoryStore()

    def one(plan):
        try:
            put(settings, packed, store, plan)
        except UsageError as error:
            refused.append(error)

    threads = [threading.Thread(target=one, args=(plan,)) for plan in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 3
    assert len(Journal(settings.home).ids()) == 1


@pytest.mark.parametrize("broken", ["plan", "bundle", "head"])
def test_a_submit_that_fails_says_so_and_leaves_no_secrets(settings, packed, broken):
    class Failing(MemoryStore):
        def put(self, key, data, **conditions):
            if key == getattr(KEYS, broken):
                raise StoreUnavailable("write", key, "no answer")
            return super().put(key, data, **conditions)

    woken = []
    with pytest.raises(StoreUnavailable):
        put(settings, packed, Failing(), woken=woken)
    job = Journal(settings.home).read(JOB_ID).job
    assert job.state is State.CANCELLED
    assert "not submitted completely" in job.sentence
    assert "no answer" in job.sentence
    assert not settings.home.secrets(JOB_ID).exists()
    assert woken == []


def test_ctrl_c_is_a_failure_like_any_other(settings, packed):
    class Interrupted(MemoryStore):
        def put(self, key, data, **conditions):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        put(settings, packed, Interrupted())
    assert Journal(settings.home).read(JOB_ID).job.state is State.CANCELLED


def test_a_submit_killed_at_any_write_leaves_no_job_or_one_that_is_cleared_up(tmp_path, packed):
    """Die before the n-th write to store or disk, for every n; as with SIGKILL, the dying tidies nothing."""
    for kill_at in range(1, 30):
        settings, store = make_settings(tmp_path / str(kill_at)), MemoryStore()
        journal = Journal(settings.home)
        died = _run_and_die(settings, packed, store, kill_at)
        journal.abandon_dead_submits(99.0)
        states = [entry.job.state for entry in journal.all()[0]]
        if not died:
            assert states == [State.ACQUIRING]
            return
        assert states in ([], [State.CANCELLED]), kill_at
        if states:
            journal.apply(JOB_ID, Settled(100.0))
        put(settings, packed, MemoryStore(), plan=make_plan("night-shift-again"))
    raise AssertionError("the submit never got through")


def _run_and_die(settings, packed, store, kill_at) -> bool:
    """Run a submit that dies at its n-th write; everything it would do while dying is prevented."""
    from gpujob import files

    class Died(BaseException):
        pass

    writes = 0

    def counting(original):
        def write(*args, **kwargs):
            nonlocal writes
            writes += 1
            if writes >= kill_at:
                raise Died
            return original(*args, **kwargs)

        return write

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "write", counting(files.write))
        patch.setattr(store, "put", counting(store.put))
        lock = settings.home.submitting(JOB_ID)
        try:
            put(settings, packed, store)
        except Died:
            lock.touch()  # its file would have stayed, its lock would have gone with the process
            return True
    return False


def test_cancelling_a_job_that_is_being_submitted_wins(settings, packed):
    class Slow(MemoryStore):
        def put(self, key, data, **conditions):
            if key == KEYS.bundle:
                Journal(settings.home).apply(JOB_ID, CancelRequested(1.0))
            return super().put(key, data, **conditions)

    woken = []
    put(settings, packed, Slow(), woken=woken)
    assert Journal(settings.home).read(JOB_ID).job.state is State.CANCELLED
    assert woken, "somebody has to close what lies in the store"


def test_submitting_the_same_id_again_needs_the_same_plan(settings, packed, tmp_path):
    store = MemoryStore()
    put(settings, packed, store)
    again = make_settings(tmp_path / "other")
    put(again, packed, store)
    with pytest.raises(Exception, match=r"job\.json"):
        put(make_settings(tmp_path / "third"), packed, store, plan=make_plan(setup="true"))


def test_cancel_of_a_job_that_is_over_changes_nothing(settings):
    journal = Journal(settings.home)
    from support.client import make_entry

    journal.create(make_entry(**OVER))
    before = journal.read(JOB_ID)
    assert cancel(settings, JOB_ID, Clock()) == before
    assert not locks.is_held(HomePaths(settings.home.root).supervisor_lock)


def test_nothing_secret_is_written_anywhere_but_into_its_file(settings, packed):
    store = MemoryStore()
    put(settings, packed, store)
    for info in store.list(""):
        assert b"open-sesame" not in store.get(info.key)
    for path in settings.home.root.rglob("*"):
        if path.is_file() and path != settings.home.secrets(JOB_ID):
            assert b"open-sesame" not in path.read_bytes()
    with pytest.raises(NotFound):
        store.get(KEYS.attempt(1).beat)
