"""What is read is of one moment, and holds up nobody who writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Connection, text

from fastrcaps_search.store import engine as engine_module
from fastrcaps_search.store import reading
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import RunKey, StudyRecord, TrialState
from fastrcaps_search.store.store import Store
from tests.store.workers import claimed, complete

if TYPE_CHECKING:
    from tests.store.conftest import QueueMaker, Sql

BUDGET = text("SELECT budget FROM fastrcaps_studies")


@pytest.fixture(params=["reading", "writing"])
def reader(
    request: pytest.FixtureRequest, location: Location, study: StudyRecord
) -> Iterator[Store]:
    """A store that reads, opened to do only that, or to write too."""
    opened: Store = getattr(Store, request.param)(location)
    yield opened
    opened.close()


def test_two_readings_see_one_state_although_another_commits_in_between(
    reader: Store, study: StudyRecord, sql: Sql
) -> None:
    def read(connection: Connection) -> list[object]:
        before = connection.scalar(BUDGET)
        sql("update fastrcaps_studies set budget = budget + 1")
        return [before, connection.scalar(BUDGET)]

    assert reader.read(read) == [4, 4]
    assert reader.read(read) == [5, 5]
    assert reader.study("tiny").budget == 6


def test_a_snapshot_is_of_one_moment(
    reader: Store,
    make_queue: QueueMaker,
    store: Store,
    location: Location,
    study: StudyRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = make_queue()
    first = claimed(queue)
    read_trials = reading.read_trials

    def meanwhile(*arguments: object, **more: object) -> object:
        """The study has been read; its trials and leases change before they are."""
        monkeypatch.undo()
        complete(store, first)
        claimed(queue)
        enter_study(location, study.definition, seed=None, budget=9)
        return read_trials(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(reading, "read_trials", meanwhile)
    seen = reader.snapshot("tiny")
    assert seen.study.budget == 4
    assert [trial.state for trial in seen.trials] == [TrialState.RUNNING]
    assert [lease.key for lease in seen.leases] == [RunKey(0, 0)]
    seen = reader.snapshot("tiny")
    assert seen.study.budget == 9
    assert [trial.state.value for trial in seen.trials] == ["complete", "running"]
    assert [lease.key for lease in seen.leases] == [RunKey(1, 0)]


def test_writes_after_a_read_see_what_was_committed_since(
    store: Store, study: StudyRecord, sql: Sql
) -> None:
    """The level of a read is given back with its connection."""
    store.read(lambda connection: connection.scalar(BUDGET))

    def write(connection: Connection) -> object:
        if store.location.path is None:
            level = connection.scalar(text("SHOW transaction_isolation"))
            assert level == "read committed"
        connection.execute(text("UPDATE fastrcaps_studies SET budget = budget + 1"))
        return connection.scalar(BUDGET)

    sql("update fastrcaps_studies set budget = 7")
    assert store.write(write) == 8


def test_a_read_does_not_wait_for_a_writer(
    location: Location,
    study: StudyRecord,
    make_queue: QueueMaker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Who waited here would be refused at once.
    monkeypatch.setattr(engine_module, "BUSY_SECONDS", 0.05)
    claimed(make_queue())

    def write(connection: Connection) -> None:
        connection.execute(text("UPDATE fastrcaps_studies SET budget = 9"))
        for open_store in (Store.reading, Store.writing):
            with closing(open_store(location)) as reader:
                seen = reader.snapshot("tiny")
                assert (seen.study.budget, len(seen.trials), len(seen.leases)) == (4, 1, 1)

    with closing(Store.writing(location)) as writer:
        writer.write(write)
        assert writer.study("tiny").budget == 9
