"""What Plotly draws, as plain values: markers, lines and the texts above them."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastrcaps_search.definition.objective import OBJECTIVES, Objective
from fastrcaps_search.report import text
from fastrcaps_search.report.marks import ATTAINED, TEXT
from fastrcaps_search.report.projections import Projection
from fastrcaps_search.report.view import LearningCurve, TrialView

FAINT = 0.38
"""Opacity of what is not on the front."""
LARGEST_LABELLED = 24
"""Trials on the front that still get their number beside the marker."""


def label(value: object) -> str:
    """Text as Plotly shows it unread."""
    return html.escape(str(value), quote=False)


def hover(trial: TrialView) -> str:
    """The lines that appear above a marker."""
    lines = [
        f"<b>trial {trial.number}</b>" + (", on the front" if trial.on_front else ""),
        label(trial.mark.policy) + (f", P = {trial.exponent}" if trial.mark.adapts_batch else ""),
        f"batch {label(trial.batch)}",
    ]
    if trial.rates:
        lines.append(label(trial.rates))
    if trial.decoder != text.NOTHING:
        shared = "shared" if trial.shares_weights else "not shared"
        lines.append(f"{label(trial.decoder)} decoder, weights {shared}")
    if trial.values is not None:
        lines += _value_lines(trial)
    return "<br>".join([*lines, label(trial.device)])


def _value_lines(trial: TrialView) -> list[str]:
    if trial.values is None:
        return []
    test = "" if trial.test_accuracy is None else f", test {text.percent(trial.test_accuracy)}"
    return [
        f"accuracy {text.percent(trial.values.accuracy)}{test}",
        f"{text.seconds(trial.values.training_seconds)} s, "
        f"{text.count(trial.values.parameters)} parameters",
    ]


def labels(front: Sequence[TrialView], objectives: Sequence[Objective]) -> dict[int, str]:
    """What stands beside each trial on the front: trials of one place share a label."""
    if len(front) > LARGEST_LABELLED:
        return {}
    places: dict[tuple[float, ...], list[int]] = {}
    columns = [column(front, objective) for objective in objectives]
    for trial, place in zip(front, zip(*columns, strict=True), strict=True):
        places.setdefault(place, []).append(trial.number)
    return {numbers[0]: ", ".join(map(str, sorted(numbers))) for numbers in places.values()}


def attainment(
    projection: Projection, x_range: Sequence[float], y_range: Sequence[float], *, log: bool
) -> dict[str, Any]:
    """The step line around what is attained, carried on to the edges of the figure."""
    left_to_right = [float(10**edge) if log else float(edge) for edge in x_range]
    start = y_range[0] if projection.y.maximise else y_range[1]
    xs, ys = zip(*projection.attained, strict=True)
    return {
        "x": [xs[0], *xs, left_to_right[1]],
        "y": [start, *ys, ys[-1]],
        "mode": "lines",
        "line": {"shape": "hv", "color": ATTAINED.light, "width": 1.5},
        "hoverinfo": "skip",
    }


def markers(
    group: Sequence[TrialView], beside: Mapping[int, str], *, on_front: bool
) -> dict[str, Any]:
    """Markers of trials of one policy, hollow where weights are shared."""
    mark = group[0].mark
    return {
        "mode": "markers+text" if on_front else "markers",
        "text": [beside.get(trial.number, "") for trial in group],
        # The attainment line leaves a marker to the right, up or down, never to the left.
        "textposition": "middle left",
        "textfont": {"size": 12, "color": TEXT.light},
        "hovertext": [hover(trial) for trial in group],
        "hoverinfo": "text",
        "cliponaxis": False,
        "marker": {
            "symbol": [mark.symbol + "-open" * trial.shares_weights for trial in group],
            "color": mark.tone.light,
            "size": 13 if on_front else 9,
            "opacity": 1.0 if on_front else FAINT,
            "line": {
                "width": [2.0 if trial.shares_weights else 0 for trial in group],
                "color": mark.tone.light,
            },
        },
    }


def stems(columns: Sequence[Sequence[float]], *, floor: float) -> dict[str, Any]:
    """A thin line from each trial on the front to the floor, which places it in depth."""
    xs, ys, zs = columns
    return {
        "x": [value for x in xs for value in (x, x, None)],
        "y": [value for y in ys for value in (y, y, None)],
        "z": [value for z in zs for value in (floor, z, None)],
        "mode": "lines",
        "line": {"color": ATTAINED.light, "width": 2},
        "hoverinfo": "skip",
    }


def markers_3d(
    group: Sequence[TrialView], beside: Mapping[int, str], *, on_front: bool
) -> dict[str, Any]:
    """The same in 3D, where Plotly knows few symbols: diamonds where the batch grows."""
    mark = group[0].mark
    shape = "diamond" if mark.adapts_batch else "circle"
    return {
        "mode": "markers+text" if on_front else "markers",
        "text": [beside.get(trial.number, "") for trial in group],
        "textfont": {"size": 12, "color": TEXT.light},
        "hovertext": [hover(trial) for trial in group],
        "hoverinfo": "text",
        "marker": {
            "symbol": [shape + "-open" * trial.shares_weights for trial in group],
            "color": mark.tone.light,
            "size": 7 if on_front else 5,
            "opacity": 1.0 if on_front else FAINT,
            "line": {"width": 0},
        },
    }


def learning_curve(curve: LearningCurve) -> dict[str, Any]:
    """The line of one run."""
    trial = curve.trial
    name = f"<b>trial {trial.number}</b>, run {curve.run + 1}, {label(trial.mark.policy)}"
    shown = zip(curve.epochs, curve.accuracies, strict=True)
    return {
        "x": list(curve.epochs),
        "y": list(curve.accuracies),
        "mode": "lines+markers",
        "opacity": 1.0 if trial.on_front else FAINT,
        "line": {"color": trial.mark.tone.light, "width": 2.4 if trial.on_front else 1.3},
        "marker": {
            "symbol": trial.mark.symbol + "-open" * trial.shares_weights,
            "size": 8 if trial.on_front else 5,
            "color": trial.mark.tone.light,
        },
        "hovertext": [f"{name}<br>epoch {epoch}: {text.percent(a)}" for epoch, a in shown],
        "hoverinfo": "text",
    }


def by_mark(trials: Iterable[TrialView], *, on_front: bool) -> list[list[TrialView]]:
    """The trials that are on the front, or are not, in groups that are drawn alike."""
    groups: dict[str, list[TrialView]] = {}
    for trial in trials:
        if trial.on_front is on_front:
            groups.setdefault(trial.mark.policy, []).append(trial)
    return list(groups.values())


def column(trials: Iterable[TrialView], objective: Objective) -> list[float]:
    """Values of the complete trials in one objective."""
    place = OBJECTIVES.index(objective)
    return [trial.values.as_tuple()[place] for trial in trials if trial.values is not None]
