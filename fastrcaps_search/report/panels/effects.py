"""What trials with each value of each parameter gave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from fastrcaps_search.definition.parameters import TRIAL_PARAMETERS
from fastrcaps_search.report import text
from fastrcaps_search.report.panel import Panel, Table
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.store.records import Values

MOST_CHOICES = 40
"""Values above which those of a parameter are not listed one by one."""


def gather(view: ReportView) -> list[list[str]] | None:
    """Head and a row for each value of each parameter that varies: medians of feasible trials."""
    found: list[list[str]] = []
    for key in TRIAL_PARAMETERS.names:
        groups: dict[object, list[Values]] = {}
        for trial in view.feasible:
            value = trial.record.parameters[key]
            if trial.values is not None and value is not None:
                groups.setdefault(value, []).append(trial.values)
        repeats = any(len(rows) > 1 for rows in groups.values())
        if not repeats or not 1 < len(groups) <= MOST_CHOICES:
            continue
        named = key.replace("_", " ")
        for value in sorted(groups, key=text.rank):
            rows = groups[value]
            told = [
                text.without_unit(one, median(row[one.name] for row in rows))
                for one in view.objectives
            ]
            found.append([named, text.value(value), text.count(len(rows)), *told])
            # A parameter is named once.
            named = ""
    columns = ["parameter", "value", "trials", *(one.column for one in view.objectives)]
    return [columns, *found] if found else None


def draw(rows: Sequence[Sequence[str]]) -> Iterator[Table]:
    """The table."""
    head, *others = rows
    yield Table(
        name="effects-table",
        words="Medians by choice",
        head=head,
        left=("parameter", "value"),
        rows=others,
    )


PANEL = Panel(name="effects", title="Medians by choice", link="", gather=gather, draw=draw)
