"""Means and spreads of a trial over its runs, as they are stored beside its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, select

from fastrcaps_search.front.spread import spread
from fastrcaps_search.store.schema import runs

MEASURED = ("accuracy", "training_seconds")
"""Values that differ from run to run; the parameters are the same in all."""
VALUE_COLUMNS = (
    *(name + part for name in MEASURED for part in ("", "_spread", "_margin")),
    "parameters",
)
"""Columns of a trial's values and their spreads."""


def read_results(connection: Connection, trial: ColumnElement[bool]) -> Sequence[Row[Any]]:
    """Runs of a trial with a result, in the order of their index."""
    columns = (runs.c[name] for name in (*MEASURED, "parameters"))
    query = select(*columns).where(runs.c.accuracy.is_not(None), trial)
    return connection.execute(query.order_by(runs.c.run)).all()


def spread_values(results: Sequence[Row[Any]]) -> dict[str, float | None]:
    """Columns of the spreads: empty for fewer than two runs, which say nothing of it."""
    found: dict[str, float | None] = {}
    for name in MEASURED:
        over = spread([getattr(row, name) for row in results])
        found[f"{name}_spread"] = None if over is None else over.deviation
        found[f"{name}_margin"] = None if over is None else over.margin
    return found


def mean_values(results: Sequence[Row[Any]]) -> Mapping[str, float | None]:
    """Columns of a trial's values, means over its runs, and of their spreads."""
    names = (*MEASURED, "parameters")
    means = {name: fmean(getattr(row, name) for row in results) for name in names}
    return {**means, **spread_values(results)}
