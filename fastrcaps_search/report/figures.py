"""The figures, drawn from a gathered view. The only module that imports Plotly.

Figures carry the colours of a light page; the page swaps them one for one where it is dark.
Plotly reads a little HTML in its labels, so every text that reaches it is escaped.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]  # it ships no types
from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]  # it ships no types

from fastrcaps_search.definition.objective import OBJECTIVES, Objective
from fastrcaps_search.report import axes, text
from fastrcaps_search.report.marks import ATTAINED, CARD, MUTED, TEXT
from fastrcaps_search.report.view import LearningCurve, Projection, ReportView, TrialView

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"
FAINT = 0.38
"""Opacity of what is not on the front."""
LARGEST_LABELLED = 24
"""Trials on the front that still get their number beside the marker."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def library() -> str:
    """The text of plotly.js."""
    return str(get_plotlyjs())


def figures(view: ReportView) -> dict[str, go.Figure]:
    """Every figure that the study has facts for, by the id of its place on the page."""
    found = {
        f"projection-{projection.x.name}-{projection.y.name}": _projection(view, projection)
        for projection in view.projections
    }
    if view.complete:
        found["space"] = _space(view)
    if view.curves:
        found["curves"] = _learning_curves(view)
    if view.rates:
        found["rates"] = _rates(view)
        found["batches"] = _batches(view)
    return found


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


def _projection(view: ReportView, projection: Projection) -> go.Figure:
    figure = _figure()
    x, y = (axes.of(o, _column(view.complete, o)) for o in (projection.x, projection.y))
    figure.update_xaxes(x)
    figure.update_yaxes(y)
    figure.add_scatter(**_attained(projection, x["range"], y["range"], log=x.get("type") == "log"))
    labels = _labels(view.front, (projection.x, projection.y))
    for on_front in (False, True):
        for group in _by_mark(view.complete, on_front=on_front):
            figure.add_scatter(
                x=_column(group, projection.x),
                y=_column(group, projection.y),
                **_markers(group, labels, on_front=on_front),
            )
    return figure


def _labels(front: Sequence[TrialView], objectives: Sequence[Objective]) -> dict[int, str]:
    """What stands beside each trial on the front: trials of one place share a label."""
    if len(front) > LARGEST_LABELLED:
        return {}
    places: dict[tuple[float, ...], list[int]] = {}
    columns = [_column(front, objective) for objective in objectives]
    for trial, place in zip(front, zip(*columns, strict=True), strict=True):
        places.setdefault(place, []).append(trial.number)
    return {numbers[0]: ", ".join(map(str, sorted(numbers))) for numbers in places.values()}


def _attained(
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


def _markers(
    group: Sequence[TrialView], labels: Mapping[int, str], *, on_front: bool
) -> dict[str, Any]:
    mark = group[0].mark
    return {
        "mode": "markers+text" if on_front else "markers",
        "text": [labels.get(trial.number, "") for trial in group],
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


def _space(view: ReportView) -> go.Figure:
    """The three objectives at once; Plotly knows few symbols in 3D, so the kind of batch has one.

    The z axis is the accuracy, so that up is better.
    """
    figure = _figure(margin={"l": 0, "r": 0, "t": 0, "b": 0})
    order = (OBJECTIVES[1], OBJECTIVES[2], OBJECTIVES[0])
    x, y, z = (_scene_axis(objective, view.complete) for objective in order)
    figure.update_scenes(
        xaxis=x,
        yaxis=y,
        zaxis=z,
        aspectmode="manual",
        aspectratio={"x": 1.25, "y": 1.25, "z": 0.9},
        camera={"eye": {"x": -1.5, "y": -1.65, "z": 0.8}, "center": {"x": 0, "y": 0, "z": -0.15}},
        bgcolor=CARD.light,
        dragmode="turntable",
    )
    columns = [_column(view.front, objective) for objective in order]
    figure.add_scatter3d(**_stems(columns, floor=z["range"][0]))
    labels = _labels(view.front, order)
    for on_front in (False, True):
        for group in _by_mark(view.complete, on_front=on_front):
            xs, ys, zs = (_column(group, objective) for objective in order)
            look = _markers_3d(group, labels, on_front=on_front)
            figure.add_scatter3d(x=xs, y=ys, z=zs, **look)
    return figure


def _scene_axis(objective: Objective, trials: Sequence[TrialView]) -> dict[str, Any]:
    axis = axes.of(objective, _column(trials, objective))
    axis["title"] = {"text": axis["title"]["text"], "font": {"color": MUTED.light, "size": 12}}
    axis["tickfont"] = {"color": MUTED.light, "size": 11}
    return {**axis, "backgroundcolor": CARD.light, "showspikes": False}


def _stems(columns: Sequence[Sequence[float]], *, floor: float) -> dict[str, Any]:
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


def _markers_3d(
    group: Sequence[TrialView], labels: Mapping[int, str], *, on_front: bool
) -> dict[str, Any]:
    mark = group[0].mark
    shape = "diamond" if mark.adapts_batch else "circle"
    return {
        "mode": "markers+text" if on_front else "markers",
        "text": [labels.get(trial.number, "") for trial in group],
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


def _learning_curves(view: ReportView) -> go.Figure:
    figure = _figure()
    known = [a for curve in view.curves for a in curve.accuracies if a is not None] or [0.0, 1.0]
    low, high = axes.limits(known)
    last = max(epoch for curve in view.curves for epoch in curve.epochs)
    figure.update_xaxes(axes.plain("epoch", range=[0.7, last + 0.3], **_whole_epochs(last)))
    figure.update_yaxes(
        axes.plain(
            "accuracy",
            range=[max(low, 0.0), min(high, 1.01)],
            tickformat=axes.decimals(high - low),
        )
    )
    for curve in sorted(view.curves, key=lambda curve: curve.trial.on_front):
        figure.add_scatter(**_curve(curve))
    return figure


def _curve(curve: LearningCurve) -> dict[str, Any]:
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


def _rates(view: ReportView) -> go.Figure:
    figure = _figure(legend=True)
    rates = [rate for line in view.rates for rate in line.rates]
    last = max(line.epochs[-1] for line in view.rates)
    figure.update_xaxes(axes.plain("progress in epochs", range=[0, last], **_whole_epochs(last)))
    figure.update_yaxes(axes.plain("learning rate", range=[0, max(rates) * 1.06], tickformat="~g"))
    for index, line in enumerate(view.rates):
        figure.add_scatter(
            x=list(line.epochs),
            y=list(line.rates),
            mode="lines",
            line={"color": line.mark.tone.light, "width": 2, "dash": DASHES[index % len(DASHES)]},
            name=f"{label(line.mark.policy)}: {text.numbered('trial', line.trials)}",
            hovertemplate="epoch %{x:.2f}: %{y:.3g}<extra>%{fullData.name}</extra>",
            showlegend=True,
        )
    return figure


def _batches(view: ReportView) -> go.Figure:
    figure = _figure(legend=True)
    sizes = [size for line in view.batches for size in line.sizes]
    last = max(len(line.sizes) for line in view.batches)
    figure.update_xaxes(axes.plain("progress in epochs", range=[0, last], **_whole_epochs(last)))
    figure.update_yaxes(axes.plain("batch size (log scale)", **axes.powers_of_two(sizes)))
    for index, line in enumerate(view.batches):
        figure.add_scatter(
            x=list(range(len(line.sizes) + 1)),
            y=[*line.sizes, line.sizes[-1]],
            mode="lines",
            line={
                "shape": "hv",
                "color": line.tone.light,
                "width": 2,
                "dash": DASHES[index % len(DASHES)],
            },
            name=f"{text.batches(line.sizes)}: {text.numbered('trial', line.trials)}",
            hovertemplate="batch %{y}<extra>%{fullData.name}</extra>",
            showlegend=True,
        )
    return figure


def _whole_epochs(last: float) -> dict[str, Any]:
    """Ticks at whole epochs only: Plotly would halve the steps of a short training."""
    return {"tick0": 0, "dtick": 1 if last <= 12 else None}


def _figure(*, legend: bool = False, **layout: Any) -> go.Figure:  # noqa: ANN401 - Plotly's own
    """An empty figure in the report's style, without Plotly's template."""
    figure = go.Figure()
    figure.update_layout(
        template="none",
        font={"family": FONT, "size": 13, "color": TEXT.light},
        paper_bgcolor=CARD.light,
        plot_bgcolor=CARD.light,
        showlegend=legend,
        legend={"orientation": "h", "x": 0, "y": -0.2, "yanchor": "top", "font": {"size": 12}},
        hoverlabel={"bgcolor": CARD.light, "align": "left", "font": {"color": TEXT.light}},
        hovermode="closest",
        uirevision="kept",
        **{"margin": {"l": 64, "r": 16, "t": 8, "b": 52}, **layout},
    )
    figure.update_xaxes(automargin=True)
    figure.update_yaxes(automargin=True)
    return figure


def _by_mark(trials: Iterable[TrialView], *, on_front: bool) -> list[list[TrialView]]:
    """The trials that are on the front, or are not, in groups that are drawn alike."""
    groups: dict[str, list[TrialView]] = {}
    for trial in trials:
        if trial.on_front is on_front:
            groups.setdefault(trial.mark.policy, []).append(trial)
    return list(groups.values())


def _column(trials: Iterable[TrialView], objective: Objective) -> list[float]:
    column = OBJECTIVES.index(objective)
    return [trial.values.as_tuple()[column] for trial in trials if trial.values is not None]
