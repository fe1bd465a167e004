"""Beside the paper: the study's figures and the published ones."""

from __future__ import annotations

from fastrcaps_search.report.comparison import Comparison, comparison
from fastrcaps_search.report.panel import Panel
from fastrcaps_search.report.view import ReportView


def gather(view: ReportView) -> Comparison | None:
    """The study beside the paper's tables, where it trained as the paper did."""
    return comparison(view.definition, [trial.record for trial in view.trials])


PANEL = Panel(
    name="paper-table",
    title="Beside the paper",
    gather=gather,
    module=__file__,
)
