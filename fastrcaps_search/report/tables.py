"""All trials as files: the rows of ``trials --json`` as JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fastrcaps_search.definition.objective import COMMON
from fastrcaps_search.definition.parameters import TRIAL_PARAMETERS
from fastrcaps_search.store.records import MEASURED

SECONDS = ("seconds_basis", "measured_seconds")
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n")


def json_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as JSON."""
    return json.dumps(rows, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as CSV: nested keys joined with a dot.

    Parameters, means, spreads and where seconds come from are there where some trial has them.
    Truth is ``true`` or ``false`` and what is not known is empty. An apostrophe comes before a
    text that a spreadsheet would take for a formula.
    """
    flat = [dict(_flat(row)) for row in rows]
    known = {name for row in flat for name in row}
    params = [f"params.{name}" for name in TRIAL_PARAMETERS.names]
    parts = ("deviation", "margin", "low", "high")
    spreads = [f"spread.{name}.{part}" for name in MEASURED for part in parts]
    names = [
        *("trial", "state"),
        *(name for name in params if name in known),
        *(f"values.{name}" for name in (rows[0]["values"] if rows else COMMON)),
        *known & {"measured.accuracy"},
        *(SECONDS if known & set(SECONDS) else ()),
        *(spreads if known & set(spreads) else ()),
        *("runs", "device", "front_probability", "test_accuracy", "feasible", "reason"),
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, object]]:
    """Each value that is no mapping, with the keys on the way to it."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            is_formula = isinstance(value, str) and value.startswith(FORMULA_SIGNS)
            shown = f"'{value}" if is_formula else value
            yield before + key, str(value).lower() if isinstance(value, bool) else shown
