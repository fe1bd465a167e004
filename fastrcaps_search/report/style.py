"""Colours and marker symbols by policy, the same in every figure, table and legend.

The colours are those of Okabe and Ito (2008, "Color universal design"), which stay apart for the
common kinds of colour blindness; where one has less than 3:1 contrast with its background (WCAG
2.2, criterion 1.4.11) it is shifted in lightness only. A learning-rate policy has one colour; with
AdaBatch it keeps the colour and has another symbol, so that symbol and colour name the pair.
"""

from __future__ import annotations

from dataclasses import dataclass

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

PALETTE = (
    Tone("#000000", "#ffffff"),
    Tone("#0072b2", "#56b4e9"),
    Tone("#00875f", "#00b383"),
    Tone("#b8588a", "#cc79a7"),
    Tone("#d55e00", "#e8762b"),
    Tone("#a87800", "#e69f00"),
    Tone("#5b4fc4", "#a99cf5"),
)
"""Of the learning-rate policies, by their place in the registry; then it begins again."""

_SYMBOLS = (
    ("circle", "pentagon"),
    ("square", "diamond"),
    ("triangle-up", "triangle-down"),
    ("cross", "x"),
    ("star", "star"),
    ("hourglass", "bowtie"),
    ("hexagram", "diamond-wide"),
)
"""Of the same: with batches that stay, and with batches that grow."""

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
        adapts_batch: Whether its batch size grows.
    """

    policy: str
    tone: Tone
    symbol: str
    adapts_batch: bool

    @property
    def outline(self) -> str:
        """SVG path of the symbol in a box of 16 x 16."""
        return OUTLINES[self.symbol]


def mark(parameters: TrialParameters) -> Mark:
    """How trials with the policy of ``parameters`` are drawn."""
    place = _place(parameters.lr_policy)
    return Mark(
        policy=parameters.policy,
        tone=PALETTE[place],
        symbol=_SYMBOLS[place][parameters.adapts_batch],
        adapts_batch=parameters.adapts_batch,
    )


def _place(lr_policy: str) -> int:
    return LR_POLICIES.names.index(lr_policy) % len(PALETTE)


def dark_colours() -> dict[str, str]:
    """The dark colour for each light one; light colours are unique."""
    tones = (CARD, TEXT, MUTED, VEIL, GRID, ATTAINED, ACCENT, BAD, *PALETTE)
    return {tone.light: tone.dark for tone in tones}
