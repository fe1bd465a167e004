"""What all figures share: colours and marker symbols by policy, fonts, margins.

The colours are those of Okabe and Ito (2008, "Color universal design"), which stay apart for the
common kinds of colour blindness; where one has less than 3:1 contrast with its background (WCAG
2.2, criterion 1.4.11) it is shifted in lightness only. A learning-rate policy has one colour; with
AdaBatch it keeps the colour and has another symbol, so that symbol and colour name the pair.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fastrcaps_search.definition.lr_policies import LR_POLICIES
from fastrcaps_search.definition.parameters import TrialParameters


@dataclass(frozen=True, slots=True)
class Tone:
    """One colour on a light page and on a dark one."""

    light: str
    dark: str


CARD = Tone("#ffffff", "#1b1e23")
"""Background of figures; a test holds every other tone to its contrast with it."""
TEXT = Tone("#22262b", "#e7e9ec")
MUTED = Tone("#596069", "#a5adb7")
VEIL = Tone("#59606924", "#a5adb724")
"""The muted colour, see-through: what many lines cover together."""
GRID = Tone("#e4e6e8", "#30353c")
ATTAINED = Tone("#6b7480", "#8f99a5")
"""The line around what is attained."""
ACCENT = Tone("#005f99", "#6cbcf0")
"""Bars and lines that stand for no policy."""
BAD = Tone("#a8321c", "#ff9b84")
"""What failed."""

_LOOKS = (
    (Tone("#000000", "#ffffff"), "circle", "pentagon"),
    (Tone("#0072b2", "#56b4e9"), "square", "diamond"),
    (Tone("#00875f", "#00b383"), "triangle-up", "triangle-down"),
    (Tone("#b8588a", "#cc79a7"), "cross", "x"),
    (Tone("#d55e00", "#e8762b"), "star", "star"),
    (Tone("#a87800", "#e69f00"), "hourglass", "bowtie"),
    (Tone("#5b4fc4", "#a99cf5"), "hexagram", "diamond-wide"),
)
"""Of the learning-rate policies, by their place in the registry, which then begins again: colour,
symbol with batches that stay, symbol with batches that grow."""
PALETTE = tuple(tone for tone, *_ in _LOOKS)

OUTLINES = {
    "circle": "M8 2a6 6 0 1 0 0 12a6 6 0 1 0 0-12z",
    "pentagon": "M8 1.8L14.3 6.4L11.9 13.7L4.1 13.7L1.7 6.4z",
    "square": "M3 3h10v10H3z",
    "diamond": "M8 1.3L14.7 8L8 14.7L1.3 8z",
    "triangle-up": "M8 2L14.5 13.5H1.5z",
    "triangle-down": "M8 14L1.5 2.5H14.5z",
    "cross": "M5.8 2h4.4v3.8H14v4.4h-3.8V14H5.8v-3.8H2V5.8h3.8z",
    "x": "M8 5.2L11 2.2L13.8 5L10.8 8L13.8 11L11 13.8L8 10.8L5 13.8L2.2 11L5.2 8L2.2 5L5 2.2z",
    "star": "M8 1.4L9.7 6.1L14.7 6.2L10.8 9.3L12.1 14.1L8 11.3L3.9 14.1L5.2 9.3L1.3 6.2L6.3 6.1z",
    "hourglass": "M2.5 2.5H13.5L2.5 13.5H13.5z",
    "bowtie": "M2.5 2.5V13.5L13.5 2.5V13.5z",
    "hexagram": "M8 1L14.1 11.5H1.9z M8 15L1.9 4.5H14.1z",
    "diamond-wide": "M8 3.5L15 8L8 12.5L1 8z",
}
"""SVG path of each symbol in a box of 16 x 16, for the page's own legend."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How a policy is drawn.

    Attributes:
        policy: Name of the pair of schedules.
        tone: Its colour.
        symbol: Its marker symbol in Plotly's words.
    """

    policy: str
    tone: Tone
    symbol: str

    @property
    def outline(self) -> str:
        """SVG path of the symbol in a box of 16 x 16."""
        return OUTLINES[self.symbol]


def mark(parameters: TrialParameters) -> Mark:
    """How trials with the policy of ``parameters`` are drawn."""
    place = LR_POLICIES.names.index(parameters.lr_policy) % len(_LOOKS)
    tone, *symbols = _LOOKS[place]
    return Mark(parameters.policy, tone, symbols[parameters.adapts_batch])


def dark_colours() -> dict[str, str]:
    """The dark colour for each light one; light colours are unique."""
    tones = (CARD, TEXT, MUTED, VEIL, GRID, ATTAINED, ACCENT, BAD, *PALETTE)
    return {tone.light: tone.dark for tone in tones}


Trace: TypeAlias = dict[str, Any]
"""A trace in Plotly's terms."""
Drawing: TypeAlias = dict[str, Any]
"""A figure in Plotly's terms: ``data`` and ``layout``."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"
SMALL = {"size": 12, "color": TEXT.light}
"""Font of words within a figure."""
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
        "legend": {**ABOVE, "y": -0.25, "yanchor": "top"},
        "hoverlabel": {"bgcolor": CARD.light, "align": "left", "font": {"color": TEXT.light}},
        "hovermode": "closest",
        "uirevision": "kept",
        "margin": {"l": 64, "r": 16, "t": 8, "b": 52},
    }
    return {"data": data, "layout": shared | layout}


def scatter(mode: str, x: Sequence[Any], y: Sequence[Any], **more: Any) -> Trace:  # noqa: ANN401 - Plotly's own values
    """Markers or lines at these places."""
    return {"type": "scatter", "mode": mode, "x": x, "y": y, **more}


def words_at(x: float, y: float, words: str, **more: Any) -> Trace:  # noqa: ANN401 - Plotly's own values
    """An annotation without an arrow."""
    return {"x": x, "y": y, "text": words, "showarrow": False, **more}


def upright(x: float, **more: Any) -> Trace:  # noqa: ANN401 - Plotly's own values
    """A vertical line from 0 to 1 below the rest."""
    return {"type": "line", "layer": "below", "x0": x, "x1": x, "y0": 0, "y1": 1, **more}


def label(value: object) -> str:
    """Text as Plotly shows it unread: it takes a little HTML for markup."""
    return html.escape(str(value), quote=False)


def short(values: Iterable[float]) -> list[float]:
    """Coordinates with as many digits as a figure can show: they are most of a page's size."""
    return [float(f"{value:.7g}") for value in values]


def error_bar(
    values: Sequence[float], ends: Sequence[tuple[float, float]], **look: object
) -> dict[str, object]:
    """Bars from the lower to the upper end around values, none of which need lie between them."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - value for value, (_, high) in zip(values, ends, strict=True)],
        "arrayminus": [value - low for value, (low, _) in zip(values, ends, strict=True)],
        **look,
    }
