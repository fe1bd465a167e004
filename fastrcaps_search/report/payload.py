"""What the page's scripts read: trials, fronts, figures and the data of panels as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from fastrcaps_search.analysis.rows import trial_row
from fastrcaps_search.report.sections import Section, figures
from fastrcaps_search.report.style import MUTED, TEXT, dark_colours
from fastrcaps_search.report.tables import csv_text
from fastrcaps_search.report.trials import TrialView
from fastrcaps_search.report.view import ReportView


def payload(view: ReportView, found: Sequence[Section]) -> dict[str, Any]:
    """All that the scripts need; the keys are theirs."""
    rows = [trial_row(trial.record, view.stored.front_probabilities) for trial in view.trials]
    return {
        "study": {"name": view.name, "inProgress": view.stored.in_progress},
        "rows": rows,
        "csv": csv_text(rows),
        "trials": [_trial(trial) for trial in view.trials],
        "fronts": {axis.value: list(front.numbers) for axis, front in view.fronts.items()},
        "marks": {
            mark.policy: {
                "light": mark.tone.light,
                "dark": mark.tone.dark,
                "outline": mark.outline,
            }
            for mark in view.marks
        },
        "figures": figures(found),
        "panels": {
            section.panel.name: section.panel.data(section.info)
            for section in found
            if section.panel.data is not None
        },
        "dark": dark_colours(),
        "muted": MUTED.light,
        "text": TEXT.light,
    }


def _trial(trial: TrialView) -> dict[str, Any]:
    """What is said of a trial wherever it is shown; parts that say nothing are left out."""
    record = trial.record
    groups = (["front"] * trial.on_front, ["infeasible"] * (record.infeasible is not None))
    found = {
        "policy": trial.mark.policy,
        "rates": trial.rates,
        "note": trial.note,
        "words": " ".join(chain(trial.workers, *groups)),
    }
    return {key: value for key, value in found.items() if value}
