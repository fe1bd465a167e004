"""Numbers that are not finite: never stored by workers, but maybe by who edits a database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.errors import StoreError
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from tests.store.workers import claimed, complete

if TYPE_CHECKING:
    from tests.store.conftest import QueueMaker, Sql

COLUMNS = (
    *(("runs", name) for name in ("accuracy", "training_seconds", "created_at", "finished_at")),
    *(("trials", "created_at"), ("claims", "claimed_at"), ("leases", "renewed_at")),
)


# SQLite stores NaN as nothing.
@pytest.mark.parametrize(
    ("location", "number", "shown"),
    [
        *(("sqlite", "9e999", "inf"), ("sqlite", "-9e999", "-inf")),
        *(("postgresql", "'Infinity'", "inf"), ("postgresql", "'NaN'", "nan")),
    ],
    indirect=["location"],
)
def test_they_are_refused_in_one_line_that_names_them(
    location: Location,
    number: str,
    shown: str,
    store: Store,
    study: StudyRecord,
    make_queue: QueueMaker,
    sql: Sql,
) -> None:
    complete(store, claimed(make_queue()))
    claimed(make_queue("w1"))
    for table, column in COLUMNS:
        kept = f"CREATE TABLE kept AS SELECT * FROM fastrcaps_{table}"
        sql(f"{kept}; UPDATE fastrcaps_{table} SET {column} = {number} WHERE number = 1")
        with pytest.raises(StoreError) as error:
            (store.snapshot("tiny"), store.claims(study))
        assert str(error.value).startswith(
            f"trial 1 must be stored with finite numbers, got {column} {shown}"
        )
        assert str(error.value).endswith(
            "; correct that in the database, or go back to a copy of it"
        )
        sql(
            f"DELETE FROM fastrcaps_{table}; INSERT INTO fastrcaps_{table} SELECT * FROM kept; "
            "DROP TABLE kept"
        )
        store.snapshot("tiny")
