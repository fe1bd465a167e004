"""The page of a learning-rate range test: one HTML file that asks nobody for anything."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from fastrcaps_search.report import axes, plots
from fastrcaps_search.report.page import PROBE, script_policy, template
from fastrcaps_search.report.plotly_io import plotly_script
from fastrcaps_search.report.templating import page_template
from fastrcaps_search.training.rate_curve import SAFETY, SPAN, RateCurve, RateTest


def rates_page(test: RateTest, *, written_at: datetime | None = None) -> str:
    """The whole page.

    Args:
        test: What to show.
        written_at: The date that it shows, in UTC; now if left out.
    """
    plotly, probe, script = plotly_script(), template(PROBE), template("rates.js")
    return page_template("rates.html.j2").render(
        test=test,
        curve=test.curve,
        safety=SAFETY,
        span=SPAN,
        content_policy=script_policy([probe, plotly, script]),
        probe=Markup(probe),
        library=Markup(plotly),
        script=Markup(script),
        data={"figure": range_test(test.curve), "dark": plots.dark_colours()},
        written_at=written_at or datetime.now(UTC),
    )


def range_test(curve: RateCurve) -> plots.Drawing:
    """Each step's loss faint, the smoothed one strong, the proposed range shaded."""
    rates = plots.short(curve.rates)
    said = "rate %{x:.2e}: %{y:.3g}"
    return plots.drawing(
        [
            plots.scatter(
                "markers",
                rates,
                plots.short(curve.losses),
                opacity=plots.FAINT,
                marker={"size": 4, "color": plots.MUTED.light},
                name="each step",
                hovertemplate=f"{said}<extra>one step</extra>",
            ),
            plots.scatter(
                "lines",
                rates,
                plots.short(curve.smoothed),
                line={"color": plots.ACCENT.light, "width": 2.4},
                name="smoothed",
                hovertemplate=f"{said}<extra>smoothed</extra>",
            ),
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
        shapes=_proposal(curve),
    )


def _proposal(curve: RateCurve) -> list[dict[str, Any]]:
    """The proposed range, and a line for the rate of the least loss and for each of its ends."""
    shade = {"type": "rect", "fillcolor": plots.VEIL.light, "line": {"width": 0}}
    dotted = {"width": 1, "color": plots.MUTED.light, "dash": "dot"}
    above = {"textposition": "end", "textangle": 0, "yanchor": "bottom"}
    lines = {"lr_min": curve.lr_min, "lr_max": curve.lr_max, "least loss": curve.best_rate}
    found = [plots.upright(curve.lr_min, yref="paper", x1=curve.lr_max, **shade)]
    for name, rate in lines.items():
        label = {"text": name, "font": {**plots.SMALL, "size": 11}, **above}
        found.append(plots.upright(rate, yref="paper", line=dotted, label=label))
    return found
