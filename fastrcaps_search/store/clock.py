"""The database's clock: the one that all workers of a study share, whatever their own say."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Float
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class now(FunctionElement[float]):  # noqa: N801  # an SQL function
    """Seconds since 1970 when the statement runs."""

    type = Float()
    inherit_cache = True


@compiles(now, "sqlite")
def _sqlite(element: now, compiler: SQLCompiler, **_: Any) -> str:  # noqa: ANN401
    # Julian days of milliseconds; 2440587.5 is the beginning of 1970.
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(now, "postgresql")
def _postgresql(element: now, compiler: SQLCompiler, **_: Any) -> str:  # noqa: ANN401
    # Not now(), which stands still within a transaction that may have waited for a lock.
    return "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
