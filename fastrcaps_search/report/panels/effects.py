"""What trials with each value of each parameter gave."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from fastrcaps_search.definition.parameters import TRIAL_PARAMETERS
from fastrcaps_search.report import text
from fastrcaps_search.report.panel import Panel, Table
from fastrcaps_search.report.view import ReportView

MOST_CHOICES = 40
"""Values above which those of a parameter are not listed one by one."""


def gather(view: ReportView) -> list[list[str]] | None:
    """A row for each value of each parameter that varies: medians of the feasible trials."""
    found: list[list[str]] = []
    for key in TRIAL_PARAMETERS.names:
        groups: dict[object, list[tuple[float, ...]]] = {}
        for trial in view.feasible:
            value = trial.record.parameters[key]
            if trial.values is not None and value is not None:
                groups.setdefault(value, []).append(trial.values.as_tuple())
        repeats = any(len(rows) > 1 for rows in groups.values())
        if not repeats or not 1 < len(groups) <= MOST_CHOICES:
            continue
        named = key.replace("_", " ")
        for value in sorted(groups, key=text.rank):
            rows = groups[value]
            medians = map(median, zip(*rows, strict=True))
            told = [tell(each) for tell, each in zip(text.VALUES, medians, strict=True)]
            found.append([named, text.value(value), text.count(len(rows)), *told])
            # A parameter is named once.
            named = ""
    return found or None


def draw(rows: Sequence[Sequence[str]]) -> tuple[Table]:
    """The table."""
    return (
        Table(
            name="effects-table",
            words="Medians by choice",
            head=("parameter", "value", "trials", "accuracy", "seconds", "parameters"),
            left=("parameter", "value"),
            rows=rows,
        ),
    )


PANEL = Panel(name="effects", title="Medians by choice", link="", gather=gather, draw=draw)
