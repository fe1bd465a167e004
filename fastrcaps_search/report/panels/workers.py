"""Who trained when: a lane for each worker, a bar for each claim of a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from fastrcaps_search.report import axes, text
from fastrcaps_search.report.panel import Panel, Plot
from fastrcaps_search.report.plots import ABOVE, Drawing, Trace, drawing, label
from fastrcaps_search.report.spans import End, Span, spans
from fastrcaps_search.report.style import ACCENT, BAD, MUTED, TEXT
from fastrcaps_search.report.view import ReportView

BAR = 0.5
"""Width of a bar, as a share of its lane."""
LOOKS = {
    End.COMPLETE: ("complete", ACCENT.light, 1.0),
    End.FAILED: ("failed", BAD.light, 1.0),
    End.INTERRUPTED: ("lost or interrupted", MUTED.light, 0.45),
    End.RUNNING: ("running", ACCENT.light, 0.45),
    End.REPEATED: ("one more run", ACCENT.light, 0.7),
}
"""Name in the legend, colour and opacity."""


MOST_LANES = 20
"""Lanes above which they share a height."""


def gather(view: ReportView) -> tuple[Span, ...] | None:
    """Who trained what when; ``None`` where nobody did."""
    found = spans(
        [trial.record for trial in view.trials],
        view.stored.claims,
        held={lease.key for lease in view.stored.leases},
        runs_per_trial=view.definition.runs_per_trial,
        now=view.written_at.timestamp(),
    )
    return found or None


def draw(found: Sequence[Span]) -> tuple[Plot]:
    """The figure."""
    lanes = len({(span.worker, span.host) for span in found})
    repeats = any(span.how is End.REPEATED for span in found)
    more = ", and one more run of a complete trial," if repeats else ""
    return (
        Plot(
            name="timeline",
            drawing=timeline(found),
            words="Timeline: a lane for each worker, a bar for each trial that it held",
            height=8 + 1.7 * min(lanes, MOST_LANES),
            scrolls=True,
            caption="A bar for each time that a worker held a trial. One that was lost or "
            f"interrupted{more} ends with its last stored epoch.",
        ),
    )


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
    # Lost before its first epoch was stored, a span has no length that one could see.
    lost = [span for span in spans if span.how is End.INTERRUPTED]
    taken = [span for span in spans if span.took_over]
    ends, starts = [span.end for span in lost], [span.start for span in taken]
    for members, marks in (
        (lost, _marks(lost, "lost here", "x-thin-open", ends)),
        (taken, _marks(taken, "taken over or continued", "triangle-right", starts)),
    ):
        if members:
            lines = [lanes[_lane(span, several=several)] for span in members]
            words = [_words(span, several=several) for span in members]
            data.append({**marks, "y": lines, "text": words})
    return drawing(
        data,
        showlegend=True,
        legend=ABOVE,
        barmode="overlay",
        margin={"l": 64, "r": 16, "t": 56, "b": 40},
        xaxis=axes.plain("", type="date", nticks=6, tickangle=0),
        yaxis=axes.rows(names),
    )


def _marks(spans: Sequence[Span], name: str, symbol: str, times: Sequence[float]) -> Trace:
    """A mark for each span where something happened to it."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [_when(at) for at in times],
        "customdata": [span.trial for span in spans],
        "hovertemplate": "%{text}<extra></extra>",
        "name": name,
        "marker": {
            "symbol": symbol,
            "size": 11,
            "color": TEXT.light,
            "line": {"width": 2, "color": TEXT.light},
        },
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
    run = f" run {span.run}" if span.run else ""
    return (
        f"<b>trial {span.trial}</b>{run}{again}: {span.how}<br>"
        f"{label(_lane(span, several=several))}, {text.duration(span.end - span.start)}"
    )


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


PANEL = Panel(
    name="workers", title="Workers, time in UTC", link="Workers", gather=gather, draw=draw
)
