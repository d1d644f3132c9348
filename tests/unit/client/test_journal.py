from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from gpujob import locks
from gpujob.client import journal as journals
from gpujob.client.journal import Journal
from gpujob.core import moves
from gpujob.core.errors import Damaged, NotFoundJob
from gpujob.core.job import State
from gpujob.core.layout import HomePaths
from gpujob.hosts.protocol import Rental
from support.client import make_beat, make_entry, make_plan


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(HomePaths(tmp_path / "home"))


def add(journal, job_id, name="a", created=0.0, **job):
    plan = make_plan(job_id, name).model_copy(update={"created_at": created})
    journal.create(make_entry(plan, **job))


def test_what_is_written_is_read(journal):
    entry = make_entry(state=State.RUNNING, attempt=1, running=True, host="h").noting(5.0, "kind", "text")
    journal.create(entry)
    assert journal.read(entry.job.id) == entry


def test_no_change_of_many_writers_is_lost(journal):
    add(journal, "j")

    def note(worker):
        for number in range(20):
            text = f"{worker}-{number}"
            journal.update("j", lambda entry, text=text: entry.noting(0.0, "note", text))

    threads = [threading.Thread(target=note, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {event.text for event in journal.read("j").history} == {f"{w}-{n}" for w in range(4) for n in range(20)}


def test_an_event_moves_the_job_and_leaves_a_line(journal):
    add(journal, "j")
    entry = journal.apply("j", moves.Begin(7.0))
    assert entry.job.state is State.ACQUIRING
    assert [(line.at, line.kind) for line in entry.history] == [(7.0, "ACQUIRING")]
    assert journal.read("j") == entry


def test_an_event_that_says_nothing_writes_nothing(journal):
    add(journal, "j", state=State.RUNNING, attempt=1, running=True)
    before = journal.signature("j")
    journal.apply("j", moves.Due(1.0))
    assert journal.signature("j") == before
    journal.apply("j", moves.Beat(1.0, make_beat(step=3)))
    assert journal.signature("j") != before
    assert journal.read("j").beat == make_beat(step=3)


def test_history_is_bounded(journal, monkeypatch):
    monkeypatch.setattr(journals, "_HISTORY", 3)
    entry = make_entry()
    for number in range(5):
        entry = entry.noting(float(number), "note", str(number))
    assert [event.text for event in entry.history] == ["2", "3", "4"]


def test_machines_are_remembered_until_they_are_released():
    rentals = {"h": Rental(ref="h", root="/r")}
    entry = make_entry(state=State.RUNNING, attempt=1, running=True, host="h").model_copy(update={"rentals": rentals})
    entry = entry.after(moves.HostGone(1.0, 1, "gone"))
    assert entry.job.unreleased == ("h",)
    assert entry.rentals == rentals
    assert entry.after(moves.Released(2.0, "h")).rentals == {}


def test_a_damaged_entry_is_named_and_the_others_go_on(journal):
    add(journal, "good")
    add(journal, "bad")
    journal.home.job("bad").write_bytes(b"{")
    with pytest.raises(Damaged, match=r"bad\.json"):
        journal.read("bad")
    entries, damaged = journal.all()
    assert [entry.job.id for entry in entries] == ["good"]
    assert len(damaged) == 1
    assert journal.find("good").job.id == "good"


def test_find_by_id_name_and_beginning(journal):
    add(journal, "alpha-1111", "alpha", created=1)
    add(journal, "alpha-2222", "alpha", created=3)
    add(journal, "alpha-3333", "alpha", created=2)
    add(journal, "beta-4444", "beta", created=0)
    assert journal.find("alpha-1111").job.id == "alpha-1111"
    assert journal.find("alpha").job.id == "alpha-2222"
    assert journal.find("be").job.id == "beta-4444"
    with pytest.raises(NotFoundJob, match="alpha-1111, alpha-3333, alpha-2222"):
        journal.find("alpha-")
    for nonsense in ("gamma", "", "../x"):
        with pytest.raises(NotFoundJob, match="beta-4444"):
            journal.find(nonsense)
    with pytest.raises(NotFoundJob):
        journal.read("nobody")


def test_a_killed_submit_is_ended_and_a_living_one_left_alone(journal):
    add(journal, "dead")
    add(journal, "living")
    add(journal, "done", state=State.RUNNING, attempt=1, running=True)
    for job_id in ("dead", "done"):
        journal.home.submitting(job_id).touch()
    with locks.locked(journal.home.submitting("living")):
        journal.abandon_dead_submits(9.0)
        assert journal.read("living").job.state is State.PLANNED
    assert journal.read("dead").job.state is State.CANCELLED
    assert "not submitted completely" in journal.read("dead").job.sentence
    assert journal.read("done").job.state is State.RUNNING
    assert not journal.home.submitting("dead").exists()


def test_only_old_leftovers_are_swept(journal):
    add(journal, "j")
    old, young = (journal.home.journal / f".gpujob-tmp-{name}" for name in ("old", "young"))
    for path in (old, young):
        path.touch()
    os.utime(old, (1.0, 1.0))
    journal.sweep(young.stat().st_mtime)
    assert (old.exists(), young.exists(), journal.ids()) == (False, True, ["j"])
