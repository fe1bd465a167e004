"""The report as one HTML file that needs nothing else and asks no network for anything."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from markupsafe import Markup

from fastrcaps_search.definition.objective import TRAINING_SECONDS
from fastrcaps_search.report import text
from fastrcaps_search.report.plotly_io import plotly_script
from fastrcaps_search.report.plots import MUTED, TEXT, dark_colours
from fastrcaps_search.report.sections import Section, figures, sections
from fastrcaps_search.report.tables import csv_text
from fastrcaps_search.report.templating import TEMPLATES, page_template
from fastrcaps_search.report.trials import TrialView
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.words import numbered, plural

PROBE = "js/probe.js"
FIRST = ("core", "state", "marked", "figures")
"""Scripts of all pages, before those of the panels; ``page`` is the last."""


def page(view: ReportView) -> str:
    """The whole page."""
    found = sections(view)
    scripts = page_scripts(found)
    plotly, probe = plotly_script(), template(PROBE)
    return page_template("page.html.j2").render(
        view=view,
        tiles=tiles(view),
        sections=[(section, Markup(section_markup(section, view))) for section in found],
        content_policy=script_policy([probe, plotly, *scripts]),
        # Texts of templates are the only things that go in as they are.
        probe=Markup(probe),
        library=Markup(plotly),
        scripts=[Markup(script) for script in scripts],
        data=payload(view, found),
    )


def section_markup(section: Section, view: ReportView) -> str:
    """The markup of a section, by its panel's own template or by the usual one."""
    notes = section.panel.note(section.info)
    own = section.panel.beside(".html.j2")
    return page_template("section.html.j2" if own is None else own).render(
        section=section, panel=section.panel, notes=notes, info=section.info, view=view
    )


def page_scripts(found: Sequence[Section]) -> list[str]:
    """The page's own scripts, in the order in which they need each other."""
    own = [path for section in found if (path := section.panel.beside(".js")) is not None]
    texts = [script.read_text(encoding="utf-8") for script in own]
    return [*(template(f"js/{name}.js") for name in FIRST), *texts, template("js/page.js")]


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure of the head with what it is and what belongs to it."""

    label: str
    value: str
    note: str


def tiles(view: ReportView) -> Iterator[Tile]:
    """Progress, the ends of the front and its hypervolume."""
    summary = view.summary
    infeasible = f", {summary.infeasible} of them infeasible" if summary.infeasible else ""
    counts = {
        f"complete{infeasible}": summary.complete,
        "failed": summary.failed,
        "running": summary.running,
        "interrupted": summary.interrupted,
    }
    states = ", ".join(f"{number} {state}" for state, number in counts.items() if number)
    finished = f"{summary.finished} of {summary.work.target}"
    yield Tile("trials finished", finished, states or "none started yet")
    # A study may have a box and no front any more: a repeat of its only trial diverged.
    if summary.hypervolume is None or not view.front:
        return
    rows = {trial.number: trial.values for trial in view.front if trial.values is not None}
    computed = {trial.number for trial in view.front if "seconds_basis" in trial.row}
    for objective in view.objectives:
        best = min((row[objective.name] for row in rows.values()), key=objective.cost)
        numbers = sorted(number for number, row in rows.items() if row[objective.name] == best)
        words = numbered("trial", numbers, limit=3)
        value = text.of_objective(objective, best)
        if objective.name == TRAINING_SECONDS.name and computed.issuperset(numbers):
            value = f"{text.COMPUTED}{value}"
        yield Tile(objective.best, value, words)
    on_front = f"{plural(len(view.front), 'trial')} on the front"
    yield Tile("hypervolume", f"{summary.hypervolume:.3f}", on_front)


def payload(view: ReportView, found: Sequence[Section]) -> dict[str, Any]:
    """All that the scripts need; the keys are theirs."""
    rows = [trial.row for trial in view.trials]
    return {
        "study": {"name": view.name, "inProgress": view.in_progress},
        "rows": rows,
        "csv": csv_text(rows),
        "trials": [_trial(trial) for trial in view.trials],
        "fronts": {axis.value: front.numbers for axis, front in view.fronts.items()},
        "marks": {
            mark.policy: {**asdict(mark.tone), "outline": mark.outline} for mark in view.marks
        },
        "figures": figures(found),
        "panels": {
            section.panel.name: section.panel.data(section.info)
            for section in found
            if section.panel.data is not None
        },
        "dark": dark_colours(),
        "muted": MUTED.light,
        "text": TEXT.light,
    }


def _trial(trial: TrialView) -> dict[str, Any]:
    """What is said of a trial wherever it is shown; parts that say nothing are left out."""
    infeasible = trial.record.infeasible is not None
    groups = ["front"] * trial.on_front + ["infeasible"] * infeasible
    found = {
        "policy": trial.mark.policy,
        "rates": trial.rates,
        "note": trial.note,
        "words": " ".join((*trial.workers, *groups)),
    }
    return {key: value for key, value in found.items() if value}


def script_policy(scripts: Sequence[str]) -> str:
    """Only these scripts, no network at all; Plotly sets styles and draws through data URLs.

    The one thing that the page may open is itself, in a frame, to see whether it is newer.
    """
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; frame-src 'self' file:; base-uri 'none'; form-action 'none'"
    )


def template(name: str) -> str:
    """A template, a style or a script as it stands in its file."""
    return (TEMPLATES / name).read_text(encoding="utf-8")
