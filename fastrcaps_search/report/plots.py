"""What all figures share: fonts, colours, margins."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any, TypeAlias

from fastrcaps_search.report.style import CARD, TEXT

Trace: TypeAlias = dict[str, Any]
"""A trace in Plotly's terms."""
Drawing: TypeAlias = dict[str, Any]
"""A figure in Plotly's terms: ``data`` and ``layout``."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
ABOVE: dict[str, Any] = {
    "orientation": "h",
    "x": 0,
    "y": 1.0,
    "yanchor": "bottom",
    "font": {"size": 12},
}
"""A legend above a figure whose height depends on its rows."""
FAINT = 0.38
"""Opacity of what is not on the front."""


def drawing(data: list[Trace], *, showlegend: bool = False, **layout: Any) -> Drawing:  # noqa: ANN401 - Plotly's own values
    """A figure in the report's style, without Plotly's template.

    Figures carry the colours of a light page; the page swaps them one for one where it is dark.
    """
    shared: dict[str, Any] = {
        "font": {"family": FONT, "size": 13, "color": TEXT.light},
        "paper_bgcolor": CARD.light,
        "plot_bgcolor": CARD.light,
        "showlegend": showlegend,
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": -0.25,
            "yanchor": "top",
            "font": {"size": 12},
        },
        "hoverlabel": {"bgcolor": CARD.light, "align": "left", "font": {"color": TEXT.light}},
        "hovermode": "closest",
        "uirevision": "kept",
        "margin": {"l": 64, "r": 16, "t": 8, "b": 52},
    }
    return {"data": data, "layout": shared | layout}


def label(value: object) -> str:
    """Text as Plotly shows it unread: it takes a little HTML for markup."""
    return html.escape(str(value), quote=False)


def faint(*, many: bool) -> float:
    """Opacity of what is not on the front."""
    return FAINT / 2 if many else FAINT


def short(values: Iterable[float]) -> list[float]:
    """Coordinates with as many digits as a figure can show: they are most of a page's size."""
    return [float(f"{value:.7g}") for value in values]
