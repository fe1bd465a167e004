"""What trials with each value of each parameter gave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from fastrcaps_search.definition.parameters import TRIAL_PARAMETERS
from fastrcaps_search.report import text
from fastrcaps_search.report.panel import Panel, Table
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.store.records import Values

MOST_CHOICES = 40
"""Values above which those of a parameter are not listed one by one."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What trials with one value of one parameter gave: medians."""

    parameter: str
    value: str
    trials: int
    medians: Values


def gather(view: ReportView) -> tuple[Effect, ...] | None:
    """Medians of the feasible trials, by each value of each parameter that varies."""
    found: list[Effect] = []
    for key in TRIAL_PARAMETERS.names:
        groups: dict[object, list[Values]] = {}
        for trial in view.feasible:
            value = trial.record.parameters[key]
            if trial.values is not None and value is not None:
                groups.setdefault(value, []).append(trial.values)
        repeats = any(len(values) > 1 for values in groups.values())
        if repeats and 1 < len(groups) <= MOST_CHOICES:
            found += [
                Effect(key, text.value(value), len(values), _medians(values))
                for value, values in sorted(groups.items(), key=lambda item: text.rank(item[0]))
            ]
    return tuple(found) or None


def _medians(values: Sequence[Values]) -> Values:
    return Values({name: median(value[name] for value in values) for name in values[0]})


def draw(effects: Sequence[Effect]) -> tuple[Table]:
    """The table; a parameter is named once."""
    named = [effect.parameter for effect in effects]
    rows = [
        (
            "" if place and named[place - 1] == effect.parameter else _words(effect.parameter),
            effect.value,
            text.count(effect.trials),
            text.percent(effect.medians.accuracy),
            text.seconds(effect.medians.training_seconds),
            text.count(effect.medians.parameters),
        )
        for place, effect in enumerate(effects)
    ]
    return (
        Table(
            name="effects-table",
            words="Medians by choice",
            head=("parameter", "value", "trials", "accuracy", "seconds", "parameters"),
            left=("parameter", "value"),
            rows=rows,
        ),
    )


def _words(parameter: str) -> str:
    return parameter.replace("_", " ")


PANEL = Panel(name="effects", title="Medians by choice", link="", gather=gather, draw=draw)
