"""Rows of one study as records."""

from __future__ import annotations

import functools
import gc
import json
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy
from sqlalchemy import Connection, CursorResult, Row, select

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.metrics import EpochMetrics, RunSetting
from fastrcaps_search.store import schema
from fastrcaps_search.store.clock import now
from fastrcaps_search.store.feasibility import infeasible_reason
from fastrcaps_search.store.holders import ClaimRecord, LeaseRecord
from fastrcaps_search.store.records import (
    EpochRecord,
    Failure,
    RunRecord,
    SetAside,
    Spread,
    StudyRecord,
    TrialRecord,
    TrialState,
    Values,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record", bound="DataclassInstance")

CLAIM_FIELDS = tuple(ClaimRecord.__dataclass_fields__)
SETTING_FIELDS = tuple(RunSetting.__dataclass_fields__)
METRIC_FIELDS = tuple(EpochMetrics.__dataclass_fields__)
# A row of an epoch: first what is its own, then its setting and its metrics.
EPOCH_FIELDS = ("number", "run", "token", "worker", "sharing", "stored_at")
OWN = slice(len(EPOCH_FIELDS))
SETTING = slice(OWN.stop, OWN.stop + len(SETTING_FIELDS))
METRICS = slice(SETTING.stop, SETTING.stop + len(METRIC_FIELDS))
ROWS_AT_ONCE = 1000
"""Rows that are taken from the database before they are made records: so few stay in a cache."""


def read_leases(connection: Connection, study_id: int | None = None) -> list[LeaseRecord]:
    """Current leases by trial number, of one study or of all."""
    table = schema.leases
    stored = [column for column in table.c if column.name in LeaseRecord.__dataclass_fields__]
    silent = (now() - table.c.renewed_at).label("silent_seconds")
    suspected = (now() - table.c.suspected_at).label("suspected_seconds")
    query = select(*stored, silent, suspected)
    if study_id is not None:
        query = query.where(table.c.study_id == study_id)
    rows = connection.execute(query.order_by(table.c.number))
    return [LeaseRecord(**row._mapping) for row in rows]


def read_claims(connection: Connection, study_id: int) -> list[ClaimRecord]:
    """All claims of a study by trial number and token."""
    table = schema.claims
    query = select(*(table.c[name] for name in CLAIM_FIELDS)).where(table.c.study_id == study_id)
    rows = connection.execute(query.order_by(table.c.number, table.c.token))
    return [ClaimRecord(*row) for row in rows]


def read_trials(
    connection: Connection,
    study: StudyRecord,
    *,
    epochs: bool = False,
    number: int | None = None,
) -> list[TrialRecord]:
    """All trials of a study (or one), by number, in one transaction."""

    def rows(
        table: sqlalchemy.Table, *order: str, names: tuple[str, ...] = ()
    ) -> CursorResult[Any]:
        columns = [table.c[name] for name in names or table.c.keys()]
        query = select(*columns).where(table.c.study_id == study.study_id)
        if number is not None:
            query = query.where(table.c.number == number)
        return connection.execute(query.order_by(*(table.c[name] for name in order)))

    runs: dict[int, list[RunRecord]] = defaultdict(list)
    names = tuple(name for name in schema.runs.c.keys() if name != "hits")  # noqa: SIM118
    for row in rows(schema.runs, "number", "run", names=names):
        runs[row.number].append(_run(row))
    stored: dict[int, list[EpochRecord]] = {}
    if epochs:
        names = (*EPOCH_FIELDS, *SETTING_FIELDS, *METRIC_FIELDS)
        stored = _epochs(rows(schema.epochs, "number", "run", "epoch", names=names))
    return [
        _trial(study, row, tuple(runs[row.number]), tuple(stored.get(row.number, ())))
        for row in rows(schema.trials, "number")
    ]


def _epochs(rows: CursorResult[Any]) -> dict[int, list[EpochRecord]]:
    """Epochs by trial, in the order of the rows.

    There may be a million: they are made column by column, and equal settings are one object.
    """
    setting_of = functools.cache(RunSetting)
    found: dict[int, list[EpochRecord]] = defaultdict(list)
    with _collection_put_off():
        for part in rows.partitions(ROWS_AT_ONCE):
            columns = list(zip(*part, strict=True))
            number, run, token, worker, sharing, stored_at = columns[OWN]
            metrics = _made(EpochMetrics, columns[METRICS])
            settings = list(map(setting_of, *columns[SETTING]))
            own = (run, token, worker, metrics, settings, sharing, stored_at)
            for trial, epoch in zip(number, _made(EpochRecord, own), strict=True):
                found[trial].append(epoch)
    return found


def _made(kind: type[Record], columns: Sequence[Sequence[Any]]) -> list[Record]:
    """Frozen, slotted records of a kind from the columns of its fields, in their order.

    Its constructor sets one field after the other in Python, for a third of the time of a read.
    """
    made = [object.__new__(kind) for _ in columns[0]]
    for field, column in zip(fields(kind), columns, strict=True):
        # A deque of no length takes what ``map`` does, without a step in Python.
        deque(map(getattr(kind, field.name).__set__, made, column), maxlen=0)
    return made


@contextmanager
def _collection_put_off() -> Iterator[None]:
    """No search for cycles while many objects are made that have none."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _setting(row: Row[Any]) -> RunSetting:
    return RunSetting(**{name: getattr(row, name) for name in SETTING_FIELDS})


def _run(row: Row[Any]) -> RunRecord:
    return RunRecord(
        run=row.run,
        seed=row.seed,
        setting=_setting(row),
        bit_equal=bool(row.bit_equal),
        accuracy=row.accuracy,
        training_seconds=row.training_seconds,
        best_epoch=row.best_epoch,
        test_accuracy=row.test_accuracy,
        parameters=row.parameters,
        failure=row.failure,
        removed=bool(row.removed),
    )


def _trial(
    study: StudyRecord,
    row: Row[Any],
    runs: tuple[RunRecord, ...],
    epochs: tuple[EpochRecord, ...],
) -> TrialRecord:
    values = infeasible = None
    set_aside = _set_aside(row)
    if row.accuracy is not None:
        values = Values(row.accuracy, row.training_seconds, row.parameters)
        infeasible = infeasible_reason(study.definition, values, set_aside)
    failure = None
    if row.failure_kind is not None:
        failure = Failure(
            row.failure_kind, row.failure_message, row.failure_trace, row.log_path or ""
        )
    # A run without its network cannot meet the test set any more.
    tested = [
        run.test_accuracy
        for run in runs
        if run.accuracy is not None and not (run.removed and run.test_accuracy is None)
    ]
    return TrialRecord(
        number=row.number,
        state=TrialState(row.state),
        parameters=TrialParameters.from_dict(json.loads(row.assignment)),
        configuration_key=row.configuration_key,
        values=values,
        test_accuracy=_mean(tested),
        failure=failure,
        token=row.token,
        created_at=row.created_at,
        finished_at=row.finished_at,
        runs=runs,
        epochs=epochs,
        accuracy_spread=_spread(row.accuracy_spread, row.accuracy_margin),
        seconds_spread=_spread(row.training_seconds_spread, row.training_seconds_margin),
        infeasible=infeasible,
        set_aside=set_aside,
    )


def _set_aside(row: Row[Any]) -> SetAside | None:
    if row.set_aside_by is None:
        return None
    return SetAside(row.set_aside_by, row.set_aside_host, row.set_aside_why, row.set_aside_at)


def _mean(values: Sequence[float | None]) -> float | None:
    """Their mean, when all are known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _spread(deviation: float | None, margin: float | None) -> Spread | None:
    return None if deviation is None or margin is None else Spread(deviation, margin)
