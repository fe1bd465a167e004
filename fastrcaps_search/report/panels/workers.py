"""Who trained when: a lane for each worker, a bar for each claim of a run to train it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from fastrcaps_search.report import axes, plots, text
from fastrcaps_search.report.panel import Panel, Plot
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.store.holders import ClaimRecord
from fastrcaps_search.store.records import RunKey

BAR = {"type": "bar", "orientation": "h", "width": 0.5, "textposition": "none"}
"""A bar, half as high as its lane."""
MOST_LANES = 20
"""Lanes above which they share a height."""


class End(StrEnum):
    """How a claim ended."""

    COMPLETE = "complete"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    RUNNING = "running"
    REPEATED = "one more run"


LOOKS = {
    End.COMPLETE: ("complete", plots.ACCENT.light, 1.0),
    End.FAILED: ("failed", plots.BAD.light, 1.0),
    End.INTERRUPTED: ("lost or interrupted", plots.MUTED.light, 0.45),
    End.RUNNING: ("running", plots.ACCENT.light, 0.45),
    End.REPEATED: ("one more run", plots.ACCENT.light, 0.7),
}
"""Name in the legend, colour and opacity."""


@dataclass(frozen=True, slots=True)
class Span:
    """A worker's time with a run.

    Attributes:
        claim: That it was given the run; above token 1 it was taken over or continued.
        end: Seconds since 1970 of the end, or of the last epoch that an interrupted one stored.
        how: How it ended.
    """

    claim: ClaimRecord
    end: float
    how: End

    @property
    def start(self) -> float:
        """Seconds since 1970 of its start."""
        return self.claim.claimed_at


def gather(view: ReportView) -> list[Span] | None:
    """Who trained what when, by start; ``None`` where nobody did."""
    trials = [shown.record for shown in view.trials]
    runs = {RunKey(trial.number, run.run): run for trial in trials for run in trial.runs}
    # Claims are read after the trials: of a run that has just begun nothing else is known.
    claims = [one for one in view.claims if one.is_training and one.key in runs]
    newest = {claim.key: claim for claim in sorted(claims, key=lambda claim: claim.token)}
    held = {lease.key for lease in view.leases}
    stored = {
        (trial.number, epoch.run, epoch.token): epoch.stored_at
        for trial in trials
        for epoch in trial.epochs
    }
    found = []
    for claim in sorted(claims, key=lambda claim: (claim.claimed_at, claim.key, claim.token)):
        run = runs[claim.key]
        # Nothing is known of a claim after its last stored epoch, unless it is the run's last.
        end = stored.get((claim.number, claim.run, claim.token), 0.0)
        how = End.INTERRUPTED
        if claim is newest[claim.key] and run.has_ended:
            is_planned = run.run < view.definition.runs_per_trial
            done = End.COMPLETE if is_planned else End.REPEATED
            end, how = run.finished_at or end, End.FAILED if run.failure else done
        elif claim is newest[claim.key] and claim.key in held:
            end, how = view.written_at.timestamp(), End.RUNNING
        found.append(Span(claim, max(end, claim.claimed_at), how))
    return found or None


def draw(found: Sequence[Span]) -> Iterator[Plot]:
    """The figure."""
    lanes = len({(span.claim.worker, span.claim.host_name) for span in found})
    repeats = any(span.how is End.REPEATED for span in found)
    more = ", and one more run of a complete trial," if repeats else ""
    yield Plot(
        name="timeline",
        drawing=timeline(found),
        words="Timeline: a lane for each worker, a bar for each trial that it held",
        height=8 + 1.7 * min(lanes, MOST_LANES),
        scrolls=True,
        caption="A bar for each time that a worker held a trial. One that was lost or "
        f"interrupted{more} ends with its last stored epoch.",
    )


def timeline(spans: Sequence[Span]) -> plots.Drawing:
    """A lane for each worker and a bar for each claim of a trial."""
    several = len({span.claim.host_name for span in spans}) > 1

    def lane(span: Span) -> str:
        worker = span.claim.worker
        return f"{worker} on {span.claim.host_name}" if several else worker

    names = sorted({lane(span) for span in spans}, reverse=True)
    places = {name: place for place, name in enumerate(names)}

    def trace(name: str, members: Sequence[Span], x: Sequence[object]) -> plots.Trace:
        """What bars and marks of spans share."""
        return {
            "name": name,
            "x": x,
            "y": [places[lane(span)] for span in members],
            "customdata": [span.claim.number for span in members],
            "text": [_words(span, lane(span)) for span in members],
            "hovertemplate": "%{text}<extra></extra>",
        }

    data = []
    for how, (name, colour, opacity) in LOOKS.items():
        members = [span for span in spans if span.how is how]
        # On an axis of dates a bar's length is in milliseconds.
        lengths = [round(1000 * (span.end - span.start)) for span in members]
        starts = [_when(span.start) for span in members]
        look = {"base": starts, "marker": {"color": colour}, "opacity": opacity}
        data.append(trace(name, members, lengths) | BAR | look)
    # Lost before its first epoch was stored, a span has no length that one could see.
    lost = [span for span in spans if span.how is End.INTERRUPTED]
    taken = [span for span in spans if span.claim.token > 1]
    ends, starts = [_when(span.end) for span in lost], [_when(span.start) for span in taken]
    data.append(trace("lost here", lost, ends) | _mark("x-thin-open"))
    data.append(trace("taken over or continued", taken, starts) | _mark("triangle-right"))
    return plots.drawing(
        [each for each in data if each["y"]],
        showlegend=True,
        legend=plots.ABOVE,
        barmode="overlay",
        margin={"l": 64, "r": 16, "t": 56, "b": 40},
        xaxis=axes.plain("", type="date", nticks=6, tickangle=0),
        yaxis=axes.rows(names),
    )


def _mark(symbol: str) -> plots.Trace:
    ink = {"color": plots.TEXT.light}
    marker = {"symbol": symbol, "size": 11, "line": {"width": 2, **ink}, **ink}
    return {"type": "scatter", "mode": "markers", "marker": marker}


def _words(span: Span, lane: str) -> str:
    claim = span.claim
    again = f", claim {claim.token}" if claim.token > 1 else ""
    run = f" run {claim.run}" if claim.run else ""
    return (
        f"<b>trial {claim.number}</b>{run}{again}: {span.how}<br>"
        f"{plots.label(lane)}, {text.duration(span.end - span.start)}"
    )


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


PANEL = Panel(
    name="workers", title="Workers, time in UTC", link="Workers", gather=gather, draw=draw
)
