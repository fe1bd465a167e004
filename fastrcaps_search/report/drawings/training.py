"""Learning curves and schedules."""

from __future__ import annotations

from collections.abc import Sequence

from fastrcaps_search.report import text
from fastrcaps_search.report.drawings import axes
from fastrcaps_search.report.drawings.base import DASHES, FAINT, Drawing, Trace, drawing, label
from fastrcaps_search.report.facts.curves import Band, Curves, LearningCurve
from fastrcaps_search.report.facts.schedules import BatchLine, RateLine
from fastrcaps_search.report.marks import MUTED, VEIL


def learning_curves(curves: Curves) -> Drawing:
    """Accuracy by epoch: the front strong, the others faint or together as a band."""
    known = [
        a for line in (*curves.others, *curves.front) for a in line.accuracies if a is not None
    ]
    ends = [line.epochs[-1] for line in (*curves.others, *curves.front)]
    data: list[Trace] = []
    if curves.band is not None:
        known += [*curves.band.levels[0], *curves.band.levels[-1]]
        ends += curves.band.epochs[-1:]
        data += _band(curves.band)
    low, high = axes.limits(known or [0.0, 1.0])
    last = max(ends, default=1)
    data += [_line(line, is_front=False) for line in curves.others]
    data += [_line(line, is_front=True) for line in reversed(curves.front)]
    return drawing(
        data,
        xaxis=axes.plain("epoch", range=[0.7, last + 0.3], **axes.whole(last)),
        yaxis=axes.plain(
            "accuracy",
            range=[max(low, 0.0), min(high, 1.01)],
            tickformat=axes.decimals(high - low),
        ),
    )


def _line(line: LearningCurve, *, is_front: bool) -> Trace:
    trial = line.trial
    name = f"<b>trial {trial.number}</b>, run {line.run + 1}, {label(trial.mark.policy)}"
    return {
        "type": "scatter",
        "x": list(line.epochs),
        "y": list(line.accuracies),
        "mode": "lines+markers" if len(line.epochs) <= 40 else "lines",
        "opacity": 1.0 if is_front else FAINT,
        "line": {"color": trial.mark.tone.light, "width": 2.4 if is_front else 1.3},
        "marker": {
            "symbol": trial.mark.symbol + "-open" * trial.shares_weights,
            "size": 8 if is_front else 5,
            "color": trial.mark.tone.light,
        },
        "customdata": [trial.number] * len(line.epochs),
        "hovertemplate": f"{name}<br>epoch %{{x}}: %{{y:.2%}}<extra></extra>",
    }


def _band(band: Band) -> list[Trace]:
    """Lowest to highest, the middle half, and the median of many runs."""
    xs = list(band.epochs)
    low, lower, middle, upper, high = (list(level) for level in band.levels)
    edge = {"type": "scatter", "x": xs, "mode": "lines", "line": {"width": 0}}
    fill = {"fill": "tonexty", "fillcolor": VEIL.light, "hoverinfo": "skip"}
    return [
        {**edge, "y": low, "hoverinfo": "skip"},
        {**edge, "y": high, **fill},
        {**edge, "y": lower, "hoverinfo": "skip"},
        {**edge, "y": upper, **fill},
        {
            **edge,
            "y": middle,
            "line": {"width": 1.5, "color": MUTED.light, "dash": "dot"},
            "hovertemplate": f"median of {band.runs:,} other runs<br>epoch %{{x}}: "
            "%{y:.2%}<extra></extra>",
        },
    ]


def rates(lines: Sequence[RateLine]) -> Drawing:
    """Learning rates of the front by progress."""
    highest = max(rate for line in lines for rate in line.rates)
    last = max(line.epochs[-1] for line in lines)
    data = [
        {
            "type": "scatter",
            "x": list(line.epochs),
            "y": list(line.rates),
            "mode": "lines",
            "line": {
                "color": line.tone.light,
                "width": 2,
                "dash": DASHES[index % len(DASHES)],
            },
            "name": f"{line.lr_policy}: {text.numbered('trial', line.trials)}",
            "hovertemplate": "epoch %{x:.2f}: %{y:.3g}<extra>%{fullData.name}</extra>",
        }
        for index, line in enumerate(lines)
    ]
    return drawing(
        data,
        showlegend=len(lines) <= 12,
        xaxis=axes.plain("progress in epochs", range=[0, last], **axes.whole(last)),
        yaxis=axes.plain("learning rate", range=[0, highest * 1.06], tickformat="~g"),
    )


def batches(lines: Sequence[BatchLine]) -> Drawing:
    """Batch sizes of the front by epoch."""
    last = max(len(line.sizes) for line in lines)
    data = [
        {
            "type": "scatter",
            "x": list(range(len(line.sizes) + 1)),
            "y": [*line.sizes, line.sizes[-1]],
            "mode": "lines",
            "line": {
                "shape": "hv",
                "color": line.tone.light,
                "width": 2,
                "dash": DASHES[index % len(DASHES)],
            },
            "name": f"{text.batches(line.sizes)}: {text.numbered('trial', line.trials)}",
            "hovertemplate": "batch %{y}<extra>%{fullData.name}</extra>",
        }
        for index, line in enumerate(lines)
    ]
    sizes = [size for line in lines for size in line.sizes]
    return drawing(
        data,
        showlegend=len(lines) <= 12,
        xaxis=axes.plain("progress in epochs", range=[0, last], **axes.whole(last)),
        yaxis=axes.plain("batch size (log scale)", **axes.powers_of_two(sizes)),
    )
