"""All trials as files: the rows of ``trials --json`` as JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from fastrcaps_search.definition.objective import COMMON
from fastrcaps_search.definition.parameters import TRIAL_PARAMETERS
from fastrcaps_search.store.records import MEASURED

SPREADS = tuple(
    (name, part) for name in MEASURED for part in ("deviation", "margin", "low", "high")
)
"""What a row says of the spread of its runs."""


def json_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as JSON."""
    return json.dumps(rows, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as CSV: nested keys joined with a dot.

    Parameters, means and spreads are there where some trial has them. Truth is ``true`` or
    ``false`` and what is not known is empty.
    """
    used = [name for name in TRIAL_PARAMETERS.names if any(name in row["params"] for row in rows)]
    measured = ("accuracy",) if any("measured" in row for row in rows) else ()
    spreads = SPREADS if any("spread" in row for row in rows) else ()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        [
            *("trial", "state"),
            *(f"params.{name}" for name in used),
            *(f"values.{name}" for name in (rows[0]["values"] if rows else COMMON)),
            *(f"measured.{name}" for name in measured),
            *(f"spread.{name}.{part}" for name, part in spreads),
            *("runs", "device", "front_probability", "test_accuracy", "feasible", "reason"),
        ]
    )
    for row in rows:
        cells = [
            *(row["trial"], row["state"]),
            *(row["params"].get(name) for name in used),
            *row["values"].values(),
            *(row.get("measured", {}).get(name) for name in measured),
            *(row.get("spread", {}).get(name, {}).get(part) for name, part in spreads),
            *(row["runs"], row["device"]),
            *map(row.get, ("front_probability", "test_accuracy", "feasible", "reason")),
        ]
        writer.writerow([_cell(cell) for cell in cells])
    return text.getvalue()


def _cell(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value
