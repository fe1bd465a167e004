"""Every figure of a report."""

from __future__ import annotations

from typing import Any

from fastrcaps_search.report.drawings import search, training
from fastrcaps_search.report.drawings.base import Drawing
from fastrcaps_search.report.drawings.certainty import certainties
from fastrcaps_search.report.drawings.parallel import parallel
from fastrcaps_search.report.drawings.projections import overlay, projections
from fastrcaps_search.report.drawings.space import space
from fastrcaps_search.report.drawings.timeline import timeline
from fastrcaps_search.report.facts.time_axis import TimeAxis
from fastrcaps_search.report.facts.view import ReportView

ALWAYS = "always"
"""Variant of a figure that is the same in every measure of time."""


def figures(view: ReportView) -> dict[str, dict[str, Drawing]]:
    """Every figure that the study has facts for.

    Returns:
        By the id of its place on the page, then by measure of time or ``ALWAYS``.
    """
    found: dict[str, dict[str, Drawing]] = {}
    trials = {trial.number: trial for trial in view.trials}
    for axis, front in view.fronts.items():
        drawn = projections(trials, front)
        drawn["space"] = space(trials, front)
        for name, figure in drawn.items():
            found.setdefault(name, {})[axis.value] = figure
    return found | {name: {ALWAYS: figure} for name, figure in _others(view).items()}


def _others(view: ReportView) -> dict[str, Drawing]:
    found: dict[str, Drawing] = {}
    measured = view.fronts.get(TimeAxis.SECONDS)
    if measured is not None and len(measured.rows) > 1:
        found["parallel"] = parallel({trial.number: trial for trial in view.trials}, measured)
    if view.certainty is not None:
        found["certainty"] = certainties(view.certainty)
    if view.curves is not None:
        found["curves"] = training.learning_curves(view.curves)
    if view.rates:
        found["rates"] = training.rates(view.rates)
        found["batches"] = training.batches(view.batches)
    if view.importance is not None:
        found["importance"] = search.importances(view.importance)
    if view.progress is not None:
        found |= search.hypervolumes(view.progress)
    if view.spans:
        found["timeline"] = timeline(view.spans)
    return found


def overlays(view: ReportView) -> dict[str, dict[str, Any]]:
    """The paper's points by measure of time and figure, where the paper gives them."""
    trials = {trial.number: trial for trial in view.trials}
    fronts = view.fronts.items()
    found = {axis.value: overlay(view.paper, trials, front) for axis, front in fronts}
    return {axis: figures for axis, figures in found.items() if figures}
