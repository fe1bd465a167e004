"""All trials as files: the rows of ``trials --json`` as JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from fastrcaps_search.definition.objective import OBJECTIVES
from fastrcaps_search.definition.parameters import PARAMETER_NAMES


def json_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as JSON."""
    return json.dumps(rows, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as CSV: nested keys joined with a dot, only parameters that some trial has.

    Truth is ``true`` or ``false`` and what is not known is empty.
    """
    used = [name for name in PARAMETER_NAMES if any(name in row["params"] for row in rows)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        [
            *("trial", "state"),
            *(f"params.{name}" for name in used),
            *(f"values.{objective.name}" for objective in OBJECTIVES),
            *("runs", "device", "test_accuracy", "reason"),
        ]
    )
    for row in rows:
        cells = [
            *(row["trial"], row["state"]),
            *(row["params"].get(name) for name in used),
            *row["values"].values(),
            *(row["runs"], row["device"], row.get("test_accuracy"), row.get("reason")),
        ]
        writer.writerow([_cell(cell) for cell in cells])
    return text.getvalue()


def _cell(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value
