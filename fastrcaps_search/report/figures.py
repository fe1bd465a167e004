"""The figures, drawn from a gathered view. The only module that imports Plotly.

Figures carry the colours of a light page; the page swaps them one for one where it is dark.
Plotly reads a little HTML in its labels, so every text that reaches it is escaped
(:func:`fastrcaps_search.report.traces.label`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]  # it ships no types
from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]  # it ships no types

from fastrcaps_search.definition.objective import OBJECTIVES, Objective
from fastrcaps_search.report import axes, text, traces
from fastrcaps_search.report.marks import CARD, MUTED, TEXT
from fastrcaps_search.report.projections import Projection
from fastrcaps_search.report.view import ReportView, TrialView

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"
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


def _projection(view: ReportView, projection: Projection) -> go.Figure:
    figure = _figure()
    x, y = (axes.of(o, traces.column(view.complete, o)) for o in (projection.x, projection.y))
    figure.update_xaxes(x)
    figure.update_yaxes(y)
    figure.add_scatter(
        **traces.attainment(projection, x["range"], y["range"], log=x.get("type") == "log")
    )
    beside = traces.labels(view.front, (projection.x, projection.y))
    for on_front in (False, True):
        for group in traces.by_mark(view.complete, on_front=on_front):
            figure.add_scatter(
                x=traces.column(group, projection.x),
                y=traces.column(group, projection.y),
                **traces.markers(group, beside, on_front=on_front),
            )
    return figure


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
    columns = [traces.column(view.front, objective) for objective in order]
    figure.add_scatter3d(**traces.stems(columns, floor=z["range"][0]))
    beside = traces.labels(view.front, order)
    for on_front in (False, True):
        for group in traces.by_mark(view.complete, on_front=on_front):
            xs, ys, zs = (traces.column(group, objective) for objective in order)
            look = traces.markers_3d(group, beside, on_front=on_front)
            figure.add_scatter3d(x=xs, y=ys, z=zs, **look)
    return figure


def _scene_axis(objective: Objective, trials: Sequence[TrialView]) -> dict[str, Any]:
    axis = axes.of(objective, traces.column(trials, objective))
    axis["title"] = {"text": axis["title"]["text"], "font": {"color": MUTED.light, "size": 12}}
    axis["tickfont"] = {"color": MUTED.light, "size": 11}
    return {**axis, "backgroundcolor": CARD.light, "showspikes": False}


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
        figure.add_scatter(**traces.learning_curve(curve))
    return figure


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
            name=f"{traces.label(line.mark.policy)}: {text.numbered('trial', line.trials)}",
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
        legend={"orientation": "h", "x": 0, "y": -0.25, "yanchor": "top", "font": {"size": 12}},
        hoverlabel={"bgcolor": CARD.light, "align": "left", "font": {"color": TEXT.light}},
        hovermode="closest",
        uirevision="kept",
        **{"margin": {"l": 64, "r": 16, "t": 8, "b": 52}, **layout},
    )
    figure.update_xaxes(automargin=True)
    figure.update_yaxes(automargin=True)
    return figure
