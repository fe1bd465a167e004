"""Databases of earlier releases: all were SQLite files."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import StoreError
from fastrcaps_search.search.suggest import propose
from fastrcaps_search.store.admission import Door
from fastrcaps_search.store.crews import Crew, KeptCrew, keep_crew, kept_crews
from fastrcaps_search.store.duties import Duty
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.holders import ClaimRecord, LeaseRecord
from fastrcaps_search.store.lease import ClaimedTrial
from fastrcaps_search.store.place import Location, locate
from fastrcaps_search.store.records import Failure, TrialState, Values
from fastrcaps_search.store.store import Store
from tests.store.workers import METRICS, SETTING, VALUES, claimed, file_of

if TYPE_CHECKING:
    from tests.store.conftest import Sql

pytestmark = pytest.mark.parametrize("location", ["sqlite"], indirect=True)

FOLDER = Path(__file__).parent
ONE = KeptCrew(Crew(1, 2), {1: 0.5})


def stored(location: Location, name: str) -> None:
    """Make the database from its dump."""
    with closing(sqlite3.connect(file_of(location))) as connection:
        connection.executescript((FOLDER / name).read_text(encoding="utf-8"))


def version(sql: Sql) -> int:
    return int(sql("select version from fastrcaps_schema")[0][0])


def tables(sql: Sql) -> set[str]:
    return {name for (name,) in sql("select name from sqlite_master where type = 'table'")}


def rows(sql: Sql, *, but: Collection[str] = frozenset()) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in our tables but their version and some columns."""
    found = {}
    for table in sorted(tables(sql)):
        if table.startswith("fastrcaps_") and table != "fastrcaps_schema":
            names = ", ".join(name for name in columns(sql, table) if name not in but)
            found[table] = sorted(sql(f"select {names} from {table}"), key=repr)
    return found


# Columns of version 3, which are in the rows of its own dump, and of versions 4 and 5.
NEW = {"deaths", "device_faults", "renewed_at", "lease_seconds", "suspected_at", "nonce"}
NEWEST = {
    *("stored_at", "repeats", "failure", "removed", "accuracy_spread", "accuracy_margin"),
    *("training_seconds_spread", "training_seconds_margin"),
}
# What SQLite makes of a type when it stores a value.
AFFINITIES = {"BIGINT": "INTEGER", "VARCHAR": "TEXT"}


def columns(sql: Sql, table: str) -> dict[str, tuple[Any, ...]]:
    """Type, whether it must not be null, default and place in the key, by column."""
    found = {}
    for _, name, kind, *rest in sql(f"select * from pragma_table_info('{table}')"):
        kind = kind.partition("(")[0]
        found[name] = (AFFINITIES.get(kind, kind), *rest)
    return found


class TestVersion1:
    """Three trials of the study "tiny", as the release 0.1.0 stored them."""

    @pytest.fixture(autouse=True)
    def _stored(self, location: Location) -> None:
        stored(location, "version_1.sql")

    def test_it_is_read_as_it_is(self, location: Location, sql: Sql) -> None:
        before = file_of(location).read_bytes()
        with closing(Store.reading(location)) as store:
            study = store.study("tiny")
            trials = store.trials(study, epochs=True)
            assert store.leases(study) == []
            assert store.claims(study) == []
        assert {epoch.stored_at for trial in trials for epoch in trial.epochs} == {None}
        assert [trial.values and trial.values.accuracy for trial in trials] == [0.1, 0.1, 0.1]
        assert [len(trial.epochs) for trial in trials] == [2, 2, 2]
        assert file_of(location).read_bytes() == before
        assert version(sql) == 1
        assert "fastrcaps_crews" not in tables(sql)

    def test_it_cannot_be_worked_on_as_it_is(self, location: Location, sql: Sql) -> None:
        with pytest.raises(StoreError, match="got version 1; `fastrcaps-search run` brings it up"):
            Store.writing(location)
        assert version(sql) == 1

    def test_a_run_brings_it_up_to_date_and_loses_nothing(
        self, location: Location, definition: StudyDefinition, sql: Sql
    ) -> None:
        before = rows(sql, but=NEW | NEWEST)
        study = enter_study(location, definition, seed=None, budget=5)
        assert (version(sql), study.budget) == (5, 5)
        sql("update fastrcaps_studies set budget = 3")
        after = rows(sql, but=NEW | NEWEST)
        assert after.pop("fastrcaps_crews") == []
        assert after.pop("fastrcaps_claims") == []
        assert after == before
        with closing(Store.writing(location)) as store:
            keep_crew(store, study, ONE, device_name="a CPU", cores=2)
            assert kept_crews(store, study, cores=2) == {"a CPU": ONE}

    def test_entering_again_keeps_what_is_new(
        self, location: Location, definition: StudyDefinition
    ) -> None:
        study = enter_study(location, definition, seed=None, budget=5)
        with closing(Store.writing(location)) as store:
            keep_crew(store, study, ONE, device_name="a CPU", cores=2)
            enter_study(location, definition, seed=None, budget=6)
            assert kept_crews(store, study, cores=2) == {"a CPU": ONE}

    def test_an_update_that_fails_half_way_leaves_it_as_it_was(
        self, location: Location, definition: StudyDefinition, sql: Sql
    ) -> None:
        sql(
            "create trigger refuse before insert on fastrcaps_schema "
            "begin select raise(abort, 'refused by a test'); end"
        )
        before = rows(sql, but=NEW | NEWEST)
        with pytest.raises(StoreError, match="refused by a test"):
            enter_study(location, definition, seed=None, budget=5)
        assert version(sql) == 1
        assert not {"fastrcaps_crews", "fastrcaps_claims"} & tables(sql)
        assert not NEW & set(columns(sql, "fastrcaps_trials"))
        assert not NEWEST & set(columns(sql, "fastrcaps_epochs"))
        assert rows(sql, but=NEW | NEWEST) == before


class TestVersion2:
    """A complete trial, a failed one, and a running one with a lease on another machine.

    The data of the real program from before leases ran out, but for the names of the machine.
    """

    @pytest.fixture(autouse=True)
    def _stored(self, location: Location) -> None:
        stored(location, "version_2.sql")

    def read_all(self, location: Location) -> None:
        with closing(Store.reading(location)) as store:
            study = store.study("tiny")
            trials = store.trials(study, epochs=True)
            leases = store.leases(study)
            assert kept_crews(store, study, cores=2) == {"a CPU": ONE}
        assert (study.seed, study.budget) == (7, 4)
        complete, failed, running = trials
        assert complete.values == Values(0.95, 4.0, 61_706)
        assert [epoch.metrics.accuracy for epoch in complete.epochs] == [0.9, 0.95]
        assert complete.epochs[0].metrics == METRICS
        assert failed.failure == Failure(
            "DivergedError", "diverged at epoch 1", "a trace", "a.log"
        )
        assert (running.state, running.token) == (TrialState.RUNNING, 1)
        assert [epoch.metrics for epoch in running.epochs] == [METRICS]
        assert [run.seed for trial in trials for run in trial.runs] == [7, 7, 7]
        assert leases == [
            LeaseRecord(
                number=2,
                token=1,
                worker="w0",
                host="another-machine/0123",
                boot_id="its boot",
                pid_namespace="pid:[1]",
                pid=4321,
                process_start=98765,
                device="cpu",
                claimed_at=leases[0].claimed_at,
            )
        ]

    def test_it_is_read_as_it_is(self, location: Location, sql: Sql) -> None:
        before = file_of(location).read_bytes()
        self.read_all(location)
        assert file_of(location).read_bytes() == before
        assert version(sql) == 2

    def test_a_run_brings_it_up_to_date_and_loses_nothing(
        self, location: Location, definition: StudyDefinition, sql: Sql
    ) -> None:
        before = rows(sql, but=NEW | NEWEST)
        enter_study(location, definition, seed=None, budget=4)
        assert version(sql) == 5
        after = rows(sql, but=NEW | NEWEST)
        assert len(after.pop("fastrcaps_claims")) == 1
        assert after == before
        self.read_all(location)

    def test_its_leases_never_run_out_and_its_trials_can_be_gone_on_with(
        self, location: Location, definition: StudyDefinition, sql: Sql
    ) -> None:
        study = enter_study(location, definition, seed=None, budget=4)
        with (
            closing(Store.writing(location)) as store,
            closing(Door(store, study, worker="w1", device="cpu", propose=propose)) as door,
        ):
            fourth = ClaimedTrial(store, claimed(door))
            assert fourth.claim.number == 3
            fourth.complete(VALUES)
            assert door.next().duty is Duty.WAIT
            assert door.next().duty is Duty.WAIT
            # Its worker gives it back, or somebody else does.
            sql("delete from fastrcaps_leases")
            running = ClaimedTrial(store, claimed(door))
            assert (running.claim.number, running.claim.token) == (2, 2)
            assert running.note_device_fault() == 1
            running.store_epoch(0, METRICS, setting=SETTING)
            running.complete(VALUES)
            assert [trial.is_finished for trial in store.trials(study)] == [True] * 4


class TestVersion3:
    """A trial that was taken over and is complete, a failed one, and a running one with a lease.

    The data of the real program from before claims were kept, but for the names of the machine.
    """

    @pytest.fixture(autouse=True)
    def _stored(self, location: Location) -> None:
        stored(location, "version_3.sql")

    def read_all(self, location: Location) -> list[ClaimRecord]:
        """Check what the dump holds; the claims."""
        with closing(Store.reading(location)) as store:
            study = store.study("tiny")
            trials = store.trials(study, epochs=True)
            (lease,) = store.leases(study)
            claims = store.claims(study)
        complete, failed, running = trials
        assert (complete.values, complete.token) == (Values(0.95, 4.0, 61_706), 2)
        epochs = [epoch for trial in trials for epoch in trial.epochs]
        assert [(epoch.worker, epoch.token) for epoch in epochs] == [
            ("w0", 1),
            ("w1", 2),
            ("w0", 1),
            ("w0", 1),
        ]
        better = replace(METRICS, epoch=2, accuracy=0.95)
        assert [epoch.metrics for epoch in epochs] == [METRICS, better, METRICS, METRICS]
        assert {epoch.setting for epoch in epochs} == {SETTING}
        assert {epoch.stored_at for epoch in epochs} == {None}
        assert failed.failure == Failure(
            "DivergedError", "diverged at epoch 1", "a trace", "a.log"
        )
        assert (running.state, running.token) == (TrialState.RUNNING, 1)
        assert (lease.number, lease.host, lease.lease_seconds) == (2, "another-machine/0123", 30)
        return claims

    def test_it_is_read_as_it_is(self, location: Location, sql: Sql) -> None:
        before = file_of(location).read_bytes()
        assert self.read_all(location) == []
        assert file_of(location).read_bytes() == before
        assert version(sql) == 3

    def test_a_run_brings_it_up_to_date_and_loses_nothing(
        self, location: Location, definition: StudyDefinition, sql: Sql
    ) -> None:
        before = rows(sql)
        ((claimed_at,),) = sql("select claimed_at from fastrcaps_leases")
        enter_study(location, definition, seed=None, budget=4)
        assert version(sql) == 5
        # What is known is who holds a trial now.
        holder = ClaimRecord(2, 1, "w0", "another-machine/0123", "cpu", claimed_at)
        assert self.read_all(location) == [holder]
        after = rows(sql, but=NEWEST)
        assert len(after.pop("fastrcaps_claims")) == 1
        assert after == before

    def test_entering_again_keeps_the_claims(
        self, location: Location, definition: StudyDefinition, sql: Sql
    ) -> None:
        enter_study(location, definition, seed=None, budget=4)
        claims = self.read_all(location)
        # As a release of version 3 leaves it that was taken for a while.
        sql("update fastrcaps_schema set version = 3")
        enter_study(location, definition, seed=None, budget=4)
        assert (version(sql), self.read_all(location)) == (5, claims)

    def test_its_trials_can_be_gone_on_with(
        self, location: Location, definition: StudyDefinition, sql: Sql
    ) -> None:
        study = enter_study(location, definition, seed=None, budget=4)
        sql("delete from fastrcaps_leases")
        with (
            closing(Store.writing(location)) as store,
            closing(Door(store, study, worker="w2", device="cpu", propose=propose)) as door,
        ):
            running = ClaimedTrial(store, claimed(door))
            running.store_epoch(0, replace(METRICS, epoch=2), setting=SETTING)
            running.complete(VALUES)
            old, new = store.trials(study, epochs=True)[2].epochs
            assert (old.stored_at, new.stored_at is None) == (None, False)
            assert [
                (claim.number, claim.token, claim.worker) for claim in store.claims(study)
            ] == [
                (2, 1, "w0"),
                (2, 2, "w2"),
            ]


class TestVersion4:
    """A complete trial of two runs, one of a single run, and a running one.

    The data of the real program from before repeats, but for the names of the machine.
    """

    @pytest.fixture(autouse=True)
    def _stored(self, location: Location) -> None:
        stored(location, "version_4.sql")

    def test_it_is_read_as_it_is(self, location: Location, sql: Sql) -> None:
        before = file_of(location).read_bytes()
        with closing(Store.reading(location)) as store:
            study = store.study("tiny")
            repeated, single, running = store.trials(study)
        assert study.repeats == 0
        assert repeated.values == Values(0.91, 3.0, 61_706)
        assert [run.accuracy for run in repeated.results] == [0.9, 0.92]
        assert {t.accuracy_spread for t in (repeated, single, running)} == {None}
        assert file_of(location).read_bytes() == before

    def test_a_run_stores_the_spreads_of_what_was_repeated(
        self, location: Location, sql: Sql
    ) -> None:
        before = rows(sql)
        with closing(Store.reading(location)) as store:
            definition = store.study("tiny").definition
        study = enter_study(location, definition, seed=None, budget=3)
        assert rows(sql, but=NEWEST - {"stored_at"}) == before
        with closing(Store.reading(location)) as store:
            repeated, single, running = store.trials(study)
        # Of two values the deviation is |a - b| / sqrt(2), and Student's t for one degree 12.706.
        assert repeated.accuracy_spread is not None
        assert repeated.accuracy_spread.deviation == pytest.approx(0.02 / 2**0.5)
        assert repeated.accuracy_spread.margin == pytest.approx(12.7062047 * 0.01)
        assert repeated.seconds_spread is not None
        assert repeated.seconds_spread.margin == pytest.approx(12.7062047 * 1.0)
        assert (single.accuracy_spread, running.seconds_spread) == (None, None)


@pytest.mark.parametrize("name", [f"version_{number}.sql" for number in (1, 2, 3, 4)])
def test_tables_that_were_brought_up_to_date_are_those_of_a_new_database(
    name: str, location: Location, sql: Sql, tmp_path: Path
) -> None:
    stored(location, name)
    with closing(Store.reading(location)) as store:
        definition = store.study("tiny").definition
    enter_study(location, definition, seed=None, budget=4)
    fresh = locate(str(tmp_path / "fresh.db"))
    enter_study(fresh, definition, seed=None, budget=4)
    migrated = {table: columns(sql, table) for table in tables(sql)}
    with closing(sqlite3.connect(file_of(fresh))) as connection:

        def in_fresh(text: str) -> list[tuple[Any, ...]]:
            return connection.execute(text).fetchall()

        assert migrated == {table: columns(in_fresh, table) for table in tables(in_fresh)}
    assert set(migrated["fastrcaps_leases"]) >= {"renewed_at", "nonce"}
    assert set(migrated["fastrcaps_epochs"]) >= {"stored_at"}
    assert set(migrated["fastrcaps_claims"]) >= {"token", "claimed_at"}
    assert set(migrated["fastrcaps_trials"]) >= {"accuracy_spread", "training_seconds_margin"}
