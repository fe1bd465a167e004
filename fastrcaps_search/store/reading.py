"""Rows of one study as records."""

from __future__ import annotations

import functools
import gc
import json
import math
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import ColumnElement, Connection, CursorResult, Row, Table, func, or_, select

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import DefinitionError, StoreError, StudyNotFoundError
from fastrcaps_search.front.hypervolume import Box
from fastrcaps_search.metrics import EpochMetrics, RunSetting
from fastrcaps_search.store import schema
from fastrcaps_search.store.holders import (
    ClaimRecord,
    JobRecord,
    LeaseRecord,
    RunFaults,
    WorkerRecord,
)
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.process_identity import ProcessIdentity
from fastrcaps_search.store.records import EpochRecord, Failure, RunRecord, SetAside, StudyRecord
from fastrcaps_search.store.trials import TrialRecord

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record", bound="DataclassInstance")

RUN_FIELDS = tuple(name for name in RunRecord.__dataclass_fields__ if name in schema.runs.c)
SETTING_FIELDS = tuple(RunSetting.__dataclass_fields__)
METRIC_FIELDS = tuple(EpochMetrics.__dataclass_fields__)
# A row of an epoch: first what is its own, then its setting and its metrics.
EPOCH_FIELDS = ("number", "run", "token", "worker", "sharing", "stored_at", "computed_seconds")
OWN = slice(len(EPOCH_FIELDS))
SETTING = slice(OWN.stop, OWN.stop + len(SETTING_FIELDS))
METRICS = slice(SETTING.stop, SETTING.stop + len(METRIC_FIELDS))
JOB_COLUMNS = ("engine", "id", "state", "host", "reason", "flags")
ROWS_AT_ONCE = 1000
"""Rows that are taken from the database before they are made records: so few stay in a cache."""

Mark = tuple[Row[Any], ...]
"""Equal at two moments of a study between which nothing happened that makes or ends work."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A study at one moment.

    Attributes:
        study: The study.
        trials: Its trials, by number.
        leases: Who holds which of their runs, the leases of lost workers included.
        mark: Changes when a run is claimed, ends or is lost, when a trial is set aside or taken
            back, and when the study is defined anew or is to have more trials or runs.
    """

    study: StudyRecord
    trials: list[TrialRecord]
    leases: list[LeaseRecord]
    mark: Mark


@dataclass(frozen=True, slots=True)
class Signs:
    """Who works on a study, and what stands in the way.

    Attributes:
        workers: Last signs of life of its workers, by name and host; of those that have ended
            without a word, too.
        faults: Runs without an end that have met faults since their last epoch.
        jobs: Workers that engines were given, as a run last saw them.
    """

    workers: list[WorkerRecord]
    faults: list[RunFaults]
    jobs: list[JobRecord] = field(default_factory=list)


def study_names(connection: Connection) -> list[str]:
    """Names of the stored studies, sorted."""
    return list(connection.scalars(select(schema.studies.c.name).order_by("name")))


def read_study(connection: Connection, name: str, location: Location) -> StudyRecord:
    """The study of that name.

    Raises:
        StudyNotFoundError: There is none; the message names those that are there.
        StoreError: Its definition cannot be read.
    """
    query = select(schema.studies).where(schema.studies.c.name == name)
    row = connection.execute(query).one_or_none()
    if row is None:
        names = ", ".join(study_names(connection)) or "none"
        raise StudyNotFoundError(f'study "{name}" must be in {location.shown}; it holds: {names}')
    try:
        definition = _definition(row.definition)
    except (ValueError, DefinitionError) as error:
        raise StoreError(
            f'{location.shown}: the stored definition of "{row.name}" cannot be read: {error}; '
            "a plug-in that it needs must be installed"
        ) from error
    box = None if row.box is None else Box.from_dict(json.loads(row.box))
    return StudyRecord(**{**row._mapping, "definition": definition, "box": box})


def read_snapshot(
    connection: Connection, name: str, location: Location, *, epochs: bool
) -> Snapshot:
    """A study, its trials and its leases."""
    study = read_study(connection, name, location)
    trials = read_trials(connection, study, epochs=epochs)
    leases = read_leases(connection, study.study_id)
    return Snapshot(study, trials, leases, read_mark(connection, study.study_id))


def read_mark(connection: Connection, study_id: int) -> Mark:
    """The mark of a study, in one row whatever it holds; empty where the study is gone."""
    studies, trials = schema.studies.c, schema.trials.c
    # Claims are never removed, and every end or loss of a run removes its lease.
    counts = (
        select(func.count()).select_from(table).where(table.c.study_id == study_id)
        for table in (schema.claims, schema.leases)
    )
    by_hand = (trials.study_id == study_id) & trials.set_aside_at.is_not(None)
    set_aside = (select(of(trials.set_aside_at)).where(by_hand) for of in (func.count, func.max))
    query = select(
        *(studies.uid, studies.budget, studies.front_runs),
        *(part.scalar_subquery() for part in (*counts, *set_aside)),
    )
    return tuple(connection.execute(query.where(studies.study_id == study_id)))


def read_doubtful(connection: Connection, study_id: int) -> list[LeaseRecord]:
    """The leases of a study whose workers may be lost.

    Those are the silent ones, and those of this machine, whose processes can be looked for.
    """
    here = schema.leases.c.host == ProcessIdentity.current().host
    return read_leases(connection, study_id, or_(here, _is_silent()))


def read_silent(connection: Connection, study_id: int) -> list[LeaseRecord]:
    """The leases of a study that were not renewed for long."""
    return read_leases(connection, study_id, _is_silent())


def _is_silent() -> ColumnElement[bool]:
    """A little more than ``LeaseRecord.is_silent`` says."""
    leases = schema.leases.c
    silent = schema.now() - leases.renewed_at
    return or_(silent < 0, silent > leases.lease_seconds / 2)


def read_leases(
    connection: Connection, study_id: int | None = None, *which: ColumnElement[bool]
) -> list[LeaseRecord]:
    """Current leases by trial and run, of one study or of all.

    Args:
        connection: In a transaction.
        study_id: The study; ``None`` for all.
        *which: Conditions for the leases.
    """
    table = schema.leases
    stored = [column for column in table.c if column.name in LeaseRecord.__dataclass_fields__]
    silent = (schema.now() - table.c.renewed_at).label("silent_seconds")
    suspected = (schema.now() - table.c.suspected_at).label("suspected_seconds")
    query = select(*stored, silent, suspected).where(*which)
    if study_id is not None:
        query = query.where(table.c.study_id == study_id)
    rows = connection.execute(query.order_by(*table.primary_key))
    return [LeaseRecord(**row._mapping) for row in _finite(rows)]


def read_workers(connection: Connection, study_id: int) -> list[WorkerRecord]:
    """Last signs of life of a study's workers, by name and host."""
    table = schema.workers
    stored = [column for column in table.c if column.name in WorkerRecord.__dataclass_fields__]
    silent = (schema.now() - table.c.seen_at).label("silent_seconds")
    query = select(*stored, silent).where(table.c.study_id == study_id)
    rows = connection.execute(query.order_by(table.c.host, table.c.worker, table.c.started_at))
    return [WorkerRecord(**row._mapping) for row in rows]


def read_jobs(connection: Connection, study_id: int) -> list[JobRecord]:
    """The jobs of a study that waited or ran when a run last looked, in the order of their ids."""
    table = schema.jobs
    ago = (schema.now() - table.c.seen_at).label("seen_seconds_ago")
    query = select(*(table.c[name] for name in JOB_COLUMNS), ago)
    rows = connection.execute(query.where(table.c.study_id == study_id))
    jobs = [JobRecord(**row._mapping) for row in rows]
    return sorted(jobs, key=lambda job: (job.engine, len(job.id), job.id))


def read_signs(connection: Connection, study_id: int) -> Signs:
    """Who works on a study, and what stands in the way."""
    table = schema.runs
    query = select(*(table.c[name] for name in RunFaults.__dataclass_fields__)).where(
        table.c.study_id == study_id,
        table.c.finished_at.is_(None),
        (table.c.deaths > 0) | (table.c.device_faults > 0),
    )
    rows = connection.execute(query.order_by(*table.primary_key))
    faults = [RunFaults(*row) for row in rows]
    return Signs(read_workers(connection, study_id), faults, read_jobs(connection, study_id))


def read_claims(connection: Connection, study_id: int) -> list[ClaimRecord]:
    """All claims of a study by trial, run and token."""
    rows = _rows(connection, schema.claims, ClaimRecord.__dataclass_fields__, study_id=study_id)
    return [ClaimRecord(**row._mapping) for row in _finite(rows)]


def _rows(
    connection: Connection,
    table: Table,
    names: Iterable[str],
    *,
    study_id: int,
    number: int | None = None,
) -> CursorResult[Any]:
    """Columns of all rows of a study, or of one of its trials, in the order of their keys."""
    query = select(*(table.c[name] for name in names)).where(table.c.study_id == study_id)
    if number is not None:
        query = query.where(table.c.number == number)
    return connection.execute(query.order_by(*table.primary_key))


def _finite(rows: CursorResult[Any]) -> Iterator[Row[Any]]:
    """The rows of trials, with finite numbers: we store no others, but who edits a database may.

    Raises:
        StoreError: A number is not finite.
    """
    for row in rows:
        for name, one in zip(row._fields, row, strict=True):
            if isinstance(one, float) and not math.isfinite(one):
                raise StoreError(
                    f"trial {row.number} must be stored with finite numbers, got {name} {one}; "
                    "correct that in the database, or go back to a copy of it"
                )
        yield row


def read_trials(
    connection: Connection,
    study: StudyRecord,
    *,
    epochs: bool = False,
    number: int | None = None,
) -> list[TrialRecord]:
    """All trials of a study (or one), by number."""
    rows = functools.partial(_rows, connection, study_id=study.study_id, number=number)
    runs: dict[int, list[RunRecord]] = defaultdict(list)
    read = [one.name for one in schema.runs.c if one.name != "hits"]
    for row in _finite(rows(schema.runs, read)):
        runs[row.number].append(_run(row))
    stored: dict[int, list[EpochRecord]] = {}
    if epochs:
        names = (*EPOCH_FIELDS, *SETTING_FIELDS, *METRIC_FIELDS)
        stored = _epochs(rows(schema.epochs, names))
    return [
        TrialRecord.of(
            study.definition,
            number=row.number,
            parameters=_parameters(row.assignment),
            configuration_key=row.configuration_key,
            created_at=row.created_at,
            runs=tuple(runs[row.number]),
            epochs=tuple(stored.get(row.number, ())),
            set_aside=_part(row, SetAside, "set_aside_"),
        )
        for row in _finite(rows(schema.trials, schema.trials.c.keys()))
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
            number, run, token, worker, sharing, stored_at, computed = columns[OWN]
            metrics = _made(EpochMetrics, columns[METRICS])
            settings = list(map(setting_of, *columns[SETTING]))
            own = (run, token, worker, metrics, settings, sharing, stored_at, computed)
            for trial, epoch in zip(number, _made(EpochRecord, own), strict=True):
                found[trial].append(epoch)
    return found


def _made(kind: type[Record], columns: Sequence[Sequence[Any]]) -> list[Record]:
    """Frozen, slotted records of a kind from the columns of its fields, in their order.

    Its constructor sets one field after the other in Python, for a third of the time of a read.
    """
    made = [object.__new__(kind) for _ in columns[0]]
    for one, column in zip(fields(kind), columns, strict=True):
        # A deque of no length takes what ``map`` does, without a step in Python.
        deque(map(getattr(kind, one.name).__set__, made, column), maxlen=0)
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


def _part(row: Row[Any], kind: type[Record], prefix: str = "") -> Record | None:
    """A record whose columns are part of a row; ``None`` where the first one is missing."""
    values = [getattr(row, prefix + name) for name in kind.__dataclass_fields__]
    return None if values[0] is None else kind(*values)


def _run(row: Row[Any]) -> RunRecord:
    failure = None
    if row.failure_kind is not None:
        failure = Failure(
            row.failure_kind, row.failure_message, row.failure_trace, row.log_path or ""
        )
    stored = {name: getattr(row, name) for name in RUN_FIELDS}
    read = {
        "setting": _part(row, RunSetting),
        "bit_equal": bool(row.bit_equal),
        "failure": failure,
        "removed": bool(row.removed),
        "others": json.loads(row.others) if row.others else {},
    }
    return RunRecord(**stored | read)


@functools.lru_cache(maxsize=4096)
def _parameters(text: str) -> TrialParameters:
    # Workers read the same trials again and again.
    return TrialParameters.from_dict(json.loads(text))


@functools.lru_cache(maxsize=8)
def _definition(text: str) -> StudyDefinition:
    return StudyDefinition.from_dict(json.loads(text))
