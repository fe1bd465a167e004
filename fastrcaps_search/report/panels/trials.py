"""All trials: sorted, searched, a part at a time; and as files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

from fastrcaps_search.definition.objective import ACCURACY, Objective
from fastrcaps_search.report import text
from fastrcaps_search.report.panel import Panel
from fastrcaps_search.report.trials import TrialView
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.store.records import TrialState

UNKNOWN = (text.NOTHING, text.share(None))
"""What is said where nothing is known."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the list.

    Attributes:
        key: In the address of the page, which says by what the list is sorted.
        title: Its title.
        text: What it says of a trial; empty or ``UNKNOWN`` where it says nothing.
        path: Where a number that it is sorted by stands in the row of ``trials --json``; sorted
            by its texts if left out.
        fewest: Different things that trials must say for it to be there.
    """

    key: str
    title: str
    text: Callable[[TrialView], str]
    path: str = ""
    fewest: int = 0


def columns(objectives: Sequence[Objective]) -> list[Column]:
    """All columns."""
    values = [
        Column(one.column, one.column, methodcaller("told", one.name), f"values.{one.name}")
        for one in objectives
    ]
    tested = Column(
        "test", "test", lambda t: text.percent(t.record.test_accuracy), "test_accuracy", 1
    )
    values.insert(objectives.index(ACCURACY) + 1, tested)
    return [*FIRST, *values, *LAST]


FIRST = (
    Column("trial", "trial", lambda t: str(t.number), "trial"),
    Column("state", "state", lambda t: str(t.record.state)),
    Column("policy", "policy", lambda t: t.mark.policy),
)
LAST = (
    Column("sure", "on front", lambda t: text.share(t.front_probability), "front_probability", 1),
    Column("p", "P", lambda t: t.chosen("adabatch_exponent"), "params.adabatch_exponent", 1),
    Column("batch", "batch size", lambda t: t.batch),
    Column("decoder", "decoder", lambda t: t.chosen("decoder"), fewest=1),
    Column("shared", "shared", lambda t: t.chosen("weight_sharing"), fewest=1),
    Column("device", "device", lambda t: t.record.device or "", fewest=2),
)


def gather(view: ReportView) -> dict[str, Any]:
    """The list of a study, which may be empty.

    Returns:
        ``columns``: those that say something, for one more would push the others out of view;
        ``cells``: texts of each trial, by column; ``states``: what the list may be narrowed to.
    """
    found, texts = [], []
    for column in columns(view.objectives):
        cells = map(column.text, view.trials)
        said = ["" if cell in UNKNOWN else cell for cell in cells]
        if len(set(said) - {""}) >= column.fewest:
            found.append({"key": column.key, "title": column.title, "path": column.path})
            texts.append(said)
    reached = {trial.record.state for trial in view.trials}
    infeasible = ["infeasible"] * (len(view.complete) > len(view.feasible))
    states = [state.value for state in TrialState if state in reached] + infeasible
    return {"columns": found, "cells": list(zip(*texts, strict=True)), "states": states}


PANEL = Panel(
    name="trials",
    title="All trials",
    gather=gather,
    module=__file__,
    data=lambda found: found,
)
