"""The fixtures of tests/store: what is analysed here is stored as there."""

from __future__ import annotations

from tests.store.conftest import (
    clock,
    definition,
    entered_database,
    entered_file,
    location,
    make_queue,
    open_optuna,
    sql,
    store,
    study,
)

__all__ = [
    "clock",
    "definition",
    "entered_database",
    "entered_file",
    "location",
    "make_queue",
    "open_optuna",
    "sql",
    "store",
    "study",
]
