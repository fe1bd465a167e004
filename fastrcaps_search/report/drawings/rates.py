"""The learning-rate range test: loss by rate, and what follows from it."""

from __future__ import annotations

import math

from fastrcaps_search.report.drawings import axes
from fastrcaps_search.report.drawings.base import FAINT, Drawing, Trace, drawing, short
from fastrcaps_search.report.marks import ACCENT, MUTED, TEXT, VEIL
from fastrcaps_search.training.rate_curve import RateCurve


def range_test(curve: RateCurve) -> Drawing:
    """Each step's loss faint, the smoothed one strong, the proposed range shaded."""
    rates = short(curve.rates)
    shapes, annotations = _proposal(curve)
    return drawing(
        [
            {
                "type": "scatter",
                "x": rates,
                "y": short(curve.losses),
                "mode": "markers",
                "opacity": FAINT,
                "marker": {"size": 4, "color": MUTED.light},
                "name": "each step",
                "hovertemplate": "rate %{x:.2e}: %{y:.3g}<extra>one step</extra>",
            },
            {
                "type": "scatter",
                "x": rates,
                "y": short(curve.smoothed),
                "mode": "lines",
                "line": {"color": ACCENT.light, "width": 2.4},
                "name": "smoothed",
                "hovertemplate": "rate %{x:.2e}: %{y:.3g}<extra>smoothed</extra>",
            },
        ],
        showlegend=True,
        xaxis=axes.plain(
            "learning rate (log scale)",
            type="log",
            range=[math.log10(rate) for rate in (0.8 * rates[0], 1.25 * rates[-1])],
            dtick=1,
            exponentformat="power",
        ),
        # Single steps may lie outside.
        yaxis=axes.plain("loss (log scale)", **axes.logarithmic(curve.smoothed)),
        margin={"l": 64, "r": 16, "t": 24, "b": 52},
        shapes=shapes,
        annotations=annotations,
    )


def _proposal(curve: RateCurve) -> tuple[list[Trace], list[Trace]]:
    """Shapes and annotations of the proposed range, and of the rate of the least loss."""
    lines = {"lr_min": curve.lr_min, "lr_max": curve.lr_max, "least loss": curve.best_rate}
    height = {"y0": 0, "y1": 1, "yref": "paper"}
    proposed: Trace = {
        "type": "rect",
        "layer": "below",
        **{"x0": curve.lr_min, "x1": curve.lr_max, **height},
        "fillcolor": VEIL.light,
        "line": {"width": 0},
    }
    marked: list[Trace] = [
        {
            "type": "line",
            "layer": "below",
            **{"x0": rate, "x1": rate, **height},
            "line": {"width": 1, "color": MUTED.light, "dash": "dot"},
        }
        for rate in lines.values()
    ]
    named: list[Trace] = [
        {
            "x": math.log10(rate),
            "y": 1,
            "yref": "paper",
            "yanchor": "bottom",
            "text": name,
            "showarrow": False,
            "font": {"size": 11, "color": TEXT.light},
        }
        for name, rate in lines.items()
    ]
    return [proposed, *marked], named
