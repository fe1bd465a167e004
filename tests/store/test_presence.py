"""The rows of live workers: what they cost, who removes them, and what they never stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event

from fastrcaps_search.store.claiming import Claimant
from fastrcaps_search.store.holders import Sign
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.presence import Presence
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from tests.store.workers import SETTING, claimed, file_of, queue_of, renewing, until

if TYPE_CHECKING:
    from tests.store.conftest import QueueMaker, Sql

ROWS = "select worker, doing, number, run, epoch from fastrcaps_workers order by worker"
Maker = Callable[..., Presence]


@pytest.fixture
def make_presence(store: Store, study: StudyRecord) -> Maker:
    """Makes the presence of a worker of that name."""

    def make(worker: str = "w0", *, lease_seconds: float = 30.0) -> Presence:
        claimant = Claimant(
            store=store, study=study, worker=worker, device="cpu", lease_seconds=lease_seconds
        )
        return Presence(claimant, job=None)

    return make


@contextmanager
def statements(store: Store) -> Iterator[list[str]]:
    """First words of the statements that are executed meanwhile, but for settings."""
    found: list[str] = []

    def note(_: object, __: object, statement: str, *rest: Any) -> None:  # noqa: ANN401
        if "set_config" not in statement and not statement.startswith(("PRAGMA", "BEGIN")):
            found.append(" ".join(statement.split()[:3]))

    event.listen(store.engine, "before_cursor_execute", note)
    yield found
    event.remove(store.engine, "before_cursor_execute", note)


def test_a_renewal_is_one_statement_more_in_the_same_transaction(
    store: Store, study: StudyRecord, make_presence: Maker
) -> None:
    claim, presence = claimed(queue_of(store, study)), make_presence()
    commits: list[object] = []
    event.listen(store.engine, "commit", commits.append)
    with statements(store) as before:
        assert RunLease(store, claim).renew()
    with statements(store) as after:
        assert RunLease(store, claim, presence=presence).renew()
    renews, looks = before
    assert renews == "UPDATE fastrcaps_leases SET"
    # For silent leases.
    assert looks.startswith("SELECT fastrcaps_leases.")
    assert after == [renews, "INSERT INTO fastrcaps_workers", looks]
    assert len(commits) == 2


def test_renewals_carry_what_the_worker_does_by_then(
    store: Store, make_queue: QueueMaker, make_presence: Maker, sql: Sql
) -> None:
    presence = make_presence()
    lease = RunLease(store, claimed(make_queue(lease_seconds=1.0)), presence=presence)
    with renewing(lease):
        presence.sign = Sign(doing="trains", number=0, run=0)
        lease.begin(SETTING, fresh=True)
        assert sql(ROWS) == [("w0", "trains", 0, 0, None)]
        presence.sign = Sign(doing="trains", number=0, run=0, epoch=2, images_per_second=7.5)
        until(lambda: sql(ROWS) == [("w0", "trains", 0, 0, 2)])
    presence.end()
    assert sql(ROWS) == []


def test_an_idle_worker_writes_what_is_new_and_not_what_is_as_before(
    store: Store, make_presence: Maker
) -> None:
    presence = make_presence()
    presence.begin()
    with statements(store) as found:
        for _ in range(3):
            presence.beat()
        assert found == []
        presence.sign = Sign(doing="waits")
        presence.beat()
        presence.beat()
    assert found == ["INSERT INTO fastrcaps_workers"]


def test_who_starts_removes_the_rows_of_those_that_are_gone(
    make_presence: Maker, sql: Sql
) -> None:
    for name in ("dead", "forgotten", "silent", "elsewhere"):
        make_presence(name).begin()
    changes = {
        "dead": "process_start = process_start + 1",
        "forgotten": "seen_at = seen_at - 3601, host = 'b'",
        # A day of work after a night of silence, by a lease that is as long.
        "silent": "seen_at = seen_at - 3601, lease_seconds = 400",
        "elsewhere": "process_start = process_start + 1, host = 'b'",
    }
    for name, change in changes.items():
        sql(f"update fastrcaps_workers set {change} where worker = '{name}'")
    make_presence("new").begin()
    assert [row[0] for row in sql(ROWS)] == ["elsewhere", "new", "silent"]


@pytest.mark.parametrize("location", ["sqlite"], indirect=True)
def test_a_database_that_is_out_is_no_matter(
    location: Location, make_presence: Maker, sql: Sql
) -> None:
    presence, file = make_presence(lease_seconds=1e-3), file_of(location)
    presence.begin()
    presence.sign = Sign(doing="waits")
    away = file.rename(file.with_name("away.db"))
    presence.beat()
    away.rename(file)
    assert sql(ROWS) == [("w0", "starts", None, None, None)]
    until(lambda: presence.is_due)
    presence.beat()
    assert sql(ROWS) == [("w0", "waits", None, None, None)]
