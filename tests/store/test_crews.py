from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import StoreError
from fastrcaps_search.store.admission import Door
from fastrcaps_search.store.crews import Crew, KeptCrew, keep_crew, kept_crews
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.place import Location
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store

TWO = KeptCrew(Crew(2, 1), {1: 0.01, 16: 0.125}, {Crew(1, 2): 100.5, Crew(2, 1): 128.25})
ONE = KeptCrew(Crew(1, 2), {1: 0.5})
# Three trials of the study "tiny", as the release 0.1.0 stored them.
VERSION_1 = Path(__file__).parent / "version_1.sql"


class TestKeeping:
    def test_a_kept_crew_comes_back_with_its_figures(
        self, store: Store, study: StudyRecord
    ) -> None:
        assert keep_crew(store, study, TWO, device_name="a CPU", cores=2) == TWO
        assert kept_crews(store, study, cores=2) == {"a CPU": TWO}

    def test_the_first_stands(self, store: Store, study: StudyRecord) -> None:
        keep_crew(store, study, TWO, device_name="a CPU", cores=2)
        assert keep_crew(store, study, ONE, device_name="a CPU", cores=2) == TWO
        assert kept_crews(store, study, cores=2) == {"a CPU": TWO}

    def test_each_device_number_of_cores_and_study_has_its_own(
        self, store: Store, study: StudyRecord, location: Location, definition: StudyDefinition
    ) -> None:
        other = enter_study(location, replace(definition, name="other"), seed=None, budget=1)
        keep_crew(store, study, TWO, device_name="a CPU", cores=2)
        for where in ((study, "a card", 2), (study, "a CPU", 4), (other, "a CPU", 2)):
            assert keep_crew(store, where[0], ONE, device_name=where[1], cores=where[2]) == ONE
        assert kept_crews(store, study, cores=2) == {"a CPU": TWO, "a card": ONE}
        assert kept_crews(store, study, cores=4) == {"a CPU": ONE}
        assert kept_crews(store, other, cores=2) == {"a CPU": ONE}

    def test_a_study_that_is_defined_anew_is_measured_anew(
        self, store: Store, study: StudyRecord, location: Location, definition: StudyDefinition
    ) -> None:
        keep_crew(store, study, TWO, device_name="a CPU", cores=2)
        enter_study(location, definition, seed=None, budget=9)
        assert kept_crews(store, study, cores=2) == {"a CPU": TWO}
        enter_study(location, replace(definition, epochs=3), seed=None, budget=9)
        assert kept_crews(store, study, cores=2) == {}


@pytest.mark.parametrize(
    ("crew", "words"),
    [
        (Crew(1, 1), "1 worker with 1 thread"),
        (Crew(1, 8), "1 worker with 8 threads"),
        (Crew(4, 1), "4 workers with 1 thread"),
        (Crew(2, 2), "2 workers with 2 threads"),
    ],
)
def test_words(crew: Crew, words: str) -> None:
    assert crew.words == words


def version(location: Location) -> int:
    with closing(sqlite3.connect(location.path)) as connection:
        return int(connection.execute("select version from fastrcaps_schema").fetchone()[0])


def tables(location: Location) -> set[str]:
    with closing(sqlite3.connect(location.path)) as connection:
        names = connection.execute("select name from sqlite_master where type = 'table'")
        return {name for (name,) in names}


class TestDatabaseOfVersion1:
    @pytest.fixture(autouse=True)
    def _stored(self, location: Location) -> None:
        with closing(sqlite3.connect(location.path)) as connection:
            connection.executescript(VERSION_1.read_text())

    def test_it_is_read_as_it_is(self, location: Location) -> None:
        store = Store.reading(location)
        try:
            trials = store.trials(store.study("tiny"), epochs=True)
        finally:
            store.close()
        assert [trial.values and trial.values.accuracy for trial in trials] == [0.1, 0.1, 0.1]
        assert [len(trial.epochs) for trial in trials] == [2, 2, 2]
        assert version(location) == 1
        assert "fastrcaps_crews" not in tables(location)

    def test_a_run_brings_it_up_to_date_and_loses_nothing(
        self,
        location: Location,
        definition: StudyDefinition,
        make_door: Callable[..., Door],
        store: Store,
    ) -> None:
        with closing(sqlite3.connect(location.path)) as connection:
            connection.executescript("create table before_ as select * from fastrcaps_epochs")
        study = enter_study(location, definition, seed=None, budget=5)
        assert (version(location), study.budget) == (3, 5)
        assert [trial.number for trial in store.trials(study)] == [0, 1, 2]
        with closing(sqlite3.connect(location.path)) as connection:
            changed = connection.execute(
                "select * from before_ except select * from fastrcaps_epochs"
            )
            assert changed.fetchall() == []
        keep_crew(store, study, TWO, device_name="a CPU", cores=2)
        assert kept_crews(store, study, cores=2) == {"a CPU": TWO}
        admitted = make_door().next()
        assert admitted.claim is not None
        assert admitted.claim.number == 3

    def test_entering_again_keeps_the_crews(
        self, location: Location, definition: StudyDefinition
    ) -> None:
        study = enter_study(location, definition, seed=None, budget=5)
        store = Store.writing(location)
        try:
            keep_crew(store, study, TWO, device_name="a CPU", cores=2)
            enter_study(location, definition, seed=None, budget=6)
            assert kept_crews(store, study, cores=2) == {"a CPU": TWO}
        finally:
            store.close()

    def test_an_update_that_fails_half_way_leaves_it_as_it_was(
        self, location: Location, definition: StudyDefinition
    ) -> None:
        with closing(sqlite3.connect(location.path)) as connection:
            connection.executescript(
                "create trigger refuse before insert on fastrcaps_schema "
                "begin select raise(abort, 'refused by a test'); end"
            )
        with pytest.raises(StoreError, match="refused by a test"):
            enter_study(location, definition, seed=None, budget=5)
        assert version(location) == 1
        assert "fastrcaps_crews" not in tables(location)


def test_tables_of_a_newer_version_are_left_alone(
    location: Location, study: StudyRecord, definition: StudyDefinition
) -> None:
    with closing(sqlite3.connect(location.path)) as connection:
        connection.executescript(
            "update fastrcaps_schema set version = 4; drop table fastrcaps_crews"
        )
    for attempt in (
        lambda: enter_study(location, definition, seed=None, budget=4),
        lambda: Store.reading(location),
        lambda: Store.writing(location),
    ):
        with pytest.raises(StoreError, match="tables of version 3 or older, got version 4; use"):
            attempt()
    assert version(location) == 4
    assert "fastrcaps_crews" not in tables(location)
