"""All trials: sorted, searched, a part at a time; and as files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fastrcaps_search.report import text
from fastrcaps_search.report.panel import Panel
from fastrcaps_search.report.trials import TrialView
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.store.records import TrialState


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the list.

    Attributes:
        key: In the address of the page, which says by what the list is sorted.
        title: Its title.
        text: What it says of a trial; empty where it says nothing.
        path: Where a number that it is sorted by stands in the row of ``trials --json``; sorted
            by its texts if left out.
    """

    key: str
    title: str
    text: Callable[[TrialView], str]
    path: str = ""


def _known(words: str) -> str:
    return "" if words == text.NOTHING else words


COLUMNS = (
    Column("trial", "trial", lambda trial: str(trial.number), "trial"),
    Column("state", "state", lambda trial: str(trial.state)),
    Column("policy", "policy", lambda trial: trial.mark.policy),
    Column("accuracy", "accuracy", lambda trial: trial.told(0), "values.accuracy"),
    Column(
        "test", "test", lambda trial: _known(text.percent(trial.test_accuracy)), "test_accuracy"
    ),
    Column("seconds", "seconds", lambda trial: trial.told(1), "values.training_seconds"),
    Column("parameters", "parameters", lambda trial: trial.told(2), "values.parameters"),
    Column(
        "sure",
        "on front",
        lambda trial: (
            "" if trial.front_probability is None else text.share(trial.front_probability)
        ),
        "front_probability",
    ),
    Column("p", "P", lambda trial: _known(trial.exponent), "params.adabatch_exponent"),
    Column("batch", "batch size", lambda trial: trial.batch),
    Column("decoder", "decoder", lambda trial: _known(trial.decoder)),
    Column("shared", "shared", lambda trial: _known(trial.shared)),
    Column("device", "device", lambda trial: trial.record.device or ""),
)
ALWAYS = ("trial", "state", "policy", "accuracy", "seconds", "parameters", "batch")
"""Columns that are there whatever they say."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The list.

    Attributes:
        columns: Those that say something: one more would push the others out of view.
        cells: Texts of each trial, by column.
        states: What the list may be narrowed to.
    """

    columns: tuple[Column, ...]
    cells: tuple[tuple[str, ...], ...]
    states: tuple[str, ...]


def gather(view: ReportView) -> Listed:
    """The list of a study, which may be empty."""
    texts = {column.key: [column.text(trial) for trial in view.trials] for column in COLUMNS}
    shown = tuple(column for column in COLUMNS if _says(column.key, texts[column.key]))
    states = [state.value for state in TrialState if state.value in texts["state"]]
    infeasible = ["infeasible"] * (len(view.complete) > len(view.feasible))
    cells = zip(*(texts[column.key] for column in shown), strict=True)
    return Listed(shown, tuple(cells), (*states, *infeasible))


def _says(key: str, texts: Sequence[str]) -> bool:
    found = set(texts) - {""}
    return key in ALWAYS or (len(found) > 1 if key == "device" else bool(found))


def data(found: Listed) -> dict[str, Any]:
    """Columns and cells."""
    columns = [{"key": c.key, "title": c.title, "path": c.path} for c in found.columns]
    return {"columns": columns, "cells": found.cells}


PANEL = Panel(
    name="trials",
    title="All trials",
    gather=gather,
    module=__file__,
    data=data,
)
