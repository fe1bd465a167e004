"""Who trained when: a lane for each worker, a bar for each claim of a run to train it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from fastrcaps_search.report import axes, plots, text
from fastrcaps_search.report.panel import Panel, Plot
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.store.holders import ClaimRecord
from fastrcaps_search.store.records import RunKey

BAR = 0.5
"""Width of a bar, as a share of its lane."""
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

    @property
    def went_on(self) -> bool:
        """Whether it went on with what another claim of the run had begun."""
        return self.claim.token > 1


def gather(view: ReportView) -> list[Span] | None:
    """Who trained what when, by start; ``None`` where nobody did."""
    by_run: dict[RunKey, list[ClaimRecord]] = {}
    for claim in sorted(view.claims, key=lambda claim: claim.token):
        if claim.is_training:
            by_run.setdefault(claim.key, []).append(claim)
    held = {lease.key for lease in view.leases}
    planned, found = view.definition.runs_per_trial, []
    for trial in (shown.record for shown in view.trials):
        # Nothing is known of a claim after its last stored epoch, unless it is the run's last.
        stored = {(epoch.run, epoch.token): epoch.stored_at for epoch in trial.epochs}
        for run in trial.runs:
            key = RunKey(trial.number, run.run)
            own = by_run.get(key, [])
            for claim in own:
                end, how = stored.get((run.run, claim.token), 0.0), End.INTERRUPTED
                if claim is own[-1] and run.has_ended:
                    done = End.REPEATED if run.run >= planned else End.COMPLETE
                    end, how = run.finished_at or end, End.FAILED if run.failure else done
                elif claim is own[-1] and key in held:
                    end, how = view.written_at.timestamp(), End.RUNNING
                found.append(Span(claim, max(end, claim.claimed_at), how))
    return sorted(found, key=lambda span: (span.start, span.claim.key)) or None


def draw(found: Sequence[Span]) -> tuple[Plot]:
    """The figure."""
    lanes = len({(span.claim.worker, span.claim.host_name) for span in found})
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


def timeline(spans: Sequence[Span]) -> plots.Drawing:
    """A lane for each worker and a bar for each claim of a trial."""
    several = len({span.claim.host_name for span in spans}) > 1

    def lane(span: Span) -> str:
        worker = span.claim.worker
        return f"{worker} on {span.claim.host_name}" if several else worker

    names = sorted({lane(span) for span in spans}, reverse=True)
    places = {name: place for place, name in enumerate(names)}

    def of(members: Sequence[Span], name: str) -> plots.Trace:
        """What bars and marks of spans share."""
        return {
            "name": name,
            "y": [places[lane(span)] for span in members],
            "customdata": [span.claim.number for span in members],
            "text": [_words(span, lane(span)) for span in members],
            "hovertemplate": "%{text}<extra></extra>",
        }

    data: list[plots.Trace] = []
    for how, (name, colour, opacity) in LOOKS.items():
        members = [span for span in spans if span.how is how]
        bars = of(members, name) | _bars(members)
        data.append(bars | {"marker": {"color": colour}, "opacity": opacity})
    # Lost before its first epoch was stored, a span has no length that one could see.
    lost = [span for span in spans if span.how is End.INTERRUPTED]
    taken = [span for span in spans if span.went_on]
    ends, starts = [span.end for span in lost], [span.start for span in taken]
    data.append(of(lost, "lost here") | _marks("x-thin-open", ends))
    data.append(of(taken, "taken over or continued") | _marks("triangle-right", starts))
    return plots.drawing(
        [trace for trace in data if trace["y"]],
        showlegend=True,
        legend=plots.ABOVE,
        barmode="overlay",
        margin={"l": 64, "r": 16, "t": 56, "b": 40},
        xaxis=axes.plain("", type="date", nticks=6, tickangle=0),
        yaxis=axes.rows(names),
    )


def _marks(symbol: str, times: Sequence[float]) -> plots.Trace:
    """A mark for each span where something happened to it."""
    look = {"size": 11, "color": plots.TEXT.light, "line": {"width": 2, "color": plots.TEXT.light}}
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [_when(at) for at in times],
        "marker": {"symbol": symbol, **look},
    }


def _bars(spans: Sequence[Span]) -> plots.Trace:
    return {
        "type": "bar",
        "orientation": "h",
        "base": [_when(span.start) for span in spans],
        # On an axis of dates a bar's length is in milliseconds.
        "x": [round(1000 * (span.end - span.start)) for span in spans],
        "width": BAR,
        "textposition": "none",
    }


def _words(span: Span, lane: str) -> str:
    claim = span.claim
    again = f", claim {claim.token}" if span.went_on else ""
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
