from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import StoreError, StudyMismatchError, WrongStoreError
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.location import Location, locate
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.schema import VERSION
from fastrcaps_search.store.store import Store
from tests.store.workers import claimed, file_of

if TYPE_CHECKING:
    from tests.store.conftest import QueueMaker, Sql


class TestEntering:
    def test_the_definition_comes_back_as_it_was(
        self, store: Store, study: StudyRecord, definition: StudyDefinition
    ) -> None:
        assert study.definition == definition
        assert (study.seed, study.budget) == (0, 4)
        assert store.study_names() == ["tiny"]

    def test_the_budget_only_grows(
        self, location: Location, study: StudyRecord, definition: StudyDefinition
    ) -> None:
        assert enter_study(location, definition, seed=None, budget=2).budget == 4
        assert enter_study(location, definition, seed=None, budget=9).budget == 9

    def test_before_the_first_trial_it_may_be_defined_anew(
        self, location: Location, study: StudyRecord, definition: StudyDefinition
    ) -> None:
        changed = replace(definition, epochs=3)
        again = enter_study(location, changed, seed=5, budget=2)
        assert (again.definition, again.seed, again.budget) == (changed, 5, 2)
        assert again.study_id == study.study_id

    def test_another_space_is_refused_with_the_difference(
        self,
        location: Location,
        study: StudyRecord,
        definition: StudyDefinition,
        make_queue: QueueMaker,
    ) -> None:
        claimed(make_queue())
        assert definition.space is not None
        changed = replace(
            definition, epochs=3, space=replace(definition.space, adabatch_exponent=(2, 4))
        )
        with pytest.raises(StudyMismatchError) as error:
            enter_study(location, changed, seed=None, budget=4)
        assert (
            "epochs: stored 2, asked 3; space.adabatch_exponent: stored [2, 3], asked [2, 4]"
            in str(error.value)
        )

    def test_another_seed_is_refused(
        self,
        location: Location,
        study: StudyRecord,
        definition: StudyDefinition,
        make_queue: QueueMaker,
    ) -> None:
        claimed(make_queue())
        with pytest.raises(StudyMismatchError, match="seed: stored 0, asked 7"):
            enter_study(location, definition, seed=7, budget=4)

    # The second one has a table named as one of Optuna's.
    @pytest.mark.parametrize(("table", "absent"), [("recipes", "studies"), ("studies", "trials")])
    def test_a_database_of_something_else_is_left_alone(
        self, table: str, absent: str, location: Location, definition: StudyDefinition, sql: Sql
    ) -> None:
        sql(f"create table {table} (name text); insert into {table} values ('cake')")
        with pytest.raises(WrongStoreError, match=f"got one with the tables {table}"):
            enter_study(location, definition, seed=None, budget=4)
        assert sql(f"select * from {table}") == [("cake",)]
        with pytest.raises(Exception, match=absent):
            sql(f"select * from {absent}")

    @pytest.mark.parametrize("location", ["sqlite"], indirect=True)
    def test_a_file_that_is_no_database_is_left_alone(
        self, location: Location, definition: StudyDefinition
    ) -> None:
        path = file_of(location)
        path.write_text("not a database, but a letter of some length" * 10)
        before = path.read_bytes()
        with pytest.raises(StoreError, match="must be an SQLite database"):
            enter_study(location, definition, seed=None, budget=4)
        assert path.read_bytes() == before

    @pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
    def test_tables_of_another_version_are_refused_and_left_alone(
        self,
        version: int,
        location: Location,
        study: StudyRecord,
        definition: StudyDefinition,
        sql: Sql,
    ) -> None:
        sql(f"update fastrcaps_schema set version = {version}; drop table fastrcaps_layouts")
        for attempt in (
            lambda: enter_study(location, definition, seed=None, budget=4),
            lambda: Store.reading(location),
            lambda: Store.writing(location),
        ):
            with pytest.raises(StoreError) as refused:
                attempt()
            assert str(refused.value) == (
                f"{location.shown} must have tables of version {VERSION}, which alone this "
                f"release reads, got version {version}; start a new database with --storage"
            )
        assert sql("select version from fastrcaps_schema") == [(version,)]
        with pytest.raises(Exception, match="fastrcaps_layouts"):
            sql("select * from fastrcaps_layouts")


def test_an_absent_folder_is_made(tmp_path: Path, definition: StudyDefinition) -> None:
    location = locate(str(tmp_path / "new" / "folder" / "a.db"))
    assert enter_study(location, definition, seed=3, budget=1).seed == 3
