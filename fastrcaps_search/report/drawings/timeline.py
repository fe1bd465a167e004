"""Who trained when: a lane for each worker, a bar for each claim of a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from fastrcaps_search.report import text
from fastrcaps_search.report.drawings import axes
from fastrcaps_search.report.drawings.base import ABOVE, Drawing, Trace, drawing, label
from fastrcaps_search.report.facts.timeline import End, Span
from fastrcaps_search.report.marks import ACCENT, BAD, MUTED, TEXT

BAR = 0.5
"""Width of a bar, as a share of its lane."""
LOOKS = {
    End.COMPLETE: ("complete", ACCENT.light, 1.0),
    End.STOPPED: ("stopped early", MUTED.light, 1.0),
    End.FAILED: ("failed", BAD.light, 1.0),
    End.INTERRUPTED: ("lost or interrupted", MUTED.light, 0.45),
    End.RUNNING: ("running", ACCENT.light, 0.45),
}
"""Name in the legend, colour and opacity."""


def timeline(spans: Sequence[Span]) -> Drawing:
    """A lane for each worker and a bar for each claim of a trial."""
    several = len({span.host for span in spans}) > 1
    names = sorted({_lane(span, several=several) for span in spans}, reverse=True)
    lanes = {name: place for place, name in enumerate(names)}
    data: list[Trace] = []
    for how, (name, colour, opacity) in LOOKS.items():
        members = [span for span in spans if span.how is how]
        if members:
            bars = _bars(members, lanes, several=several)
            data.append(bars | {"name": name, "marker": {"color": colour}, "opacity": opacity})
    taken = [span for span in spans if span.took_over]
    if taken:
        data.append(_take_overs(taken, lanes, several=several))
    return drawing(
        data,
        showlegend=True,
        legend=ABOVE,
        barmode="overlay",
        margin={"l": 64, "r": 16, "t": 56, "b": 40},
        xaxis=axes.plain("", type="date", nticks=6, tickangle=0),
        yaxis=axes.rows(names),
    )


def _take_overs(spans: Sequence[Span], lanes: Mapping[str, int], *, several: bool) -> Trace:
    """A mark where a worker took a trial over or went on with it."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [_when(span.start) for span in spans],
        "y": [lanes[_lane(span, several=several)] for span in spans],
        "customdata": [span.trial for span in spans],
        "text": [_words(span, several=several) for span in spans],
        "hovertemplate": "%{text}<extra></extra>",
        "name": "taken over or continued",
        "marker": {"symbol": "triangle-right", "size": 11, "color": TEXT.light},
    }


def _bars(spans: Sequence[Span], lanes: Mapping[str, int], *, several: bool) -> Trace:
    return {
        "type": "bar",
        "orientation": "h",
        "base": [_when(span.start) for span in spans],
        # On an axis of dates a bar's length is in milliseconds.
        "x": [round(1000 * (span.end - span.start)) for span in spans],
        "y": [lanes[_lane(span, several=several)] for span in spans],
        "width": BAR,
        "customdata": [span.trial for span in spans],
        "text": [_words(span, several=several) for span in spans],
        "textposition": "none",
        "hovertemplate": "%{text}<extra></extra>",
    }


def _lane(span: Span, *, several: bool) -> str:
    return f"{span.worker} on {span.host}" if several else span.worker


def _words(span: Span, *, several: bool) -> str:
    again = f", claim {span.token}" if span.took_over else ""
    return (
        f"<b>trial {span.trial}</b>{again}: {span.how}<br>"
        f"{label(_lane(span, several=several))}, {text.duration(span.end - span.start)}"
    )


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
