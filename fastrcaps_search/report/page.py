"""The report as one HTML file that needs nothing else and asks no network for anything."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from fastrcaps_search.report import text
from fastrcaps_search.report.facts.paper import HARDWARE
from fastrcaps_search.report.facts.projections import PAIRS
from fastrcaps_search.report.facts.trials import MOST_SHOWN
from fastrcaps_search.report.facts.view import ReportView
from fastrcaps_search.report.library import library
from fastrcaps_search.report.payload import payload
from fastrcaps_search.report.templating import TEMPLATES, page_template
from fastrcaps_search.store.records import TrialState

PROBE = "js/0-probe.js"

_UNSAFE_IN_SCRIPT = "<>&\u2028\u2029"


def page(view: ReportView) -> str:
    """The whole page."""
    found = payload(view)
    rows = {row["trial"]: row for row in found["rows"]}
    scripts = [template(name) for name in page_scripts()]
    plotly = library()
    states = {trial.state for trial in view.trials}
    return page_template(
        "page.html.j2",
        percent=text.percent,
        share=text.share,
        margin=text.margin,
        points=text.points,
        p_value=text.p_value,
        seconds=text.seconds,
        seconds_margin=text.seconds_margin,
        count=text.count,
        trials=lambda numbers: text.numbered("trial", numbers),
    ).render(
        view=view,
        pairs=PAIRS,
        hardware=HARDWARE,
        most_shown=MOST_SHOWN,
        nothing=text.NOTHING,
        states=[state.value for state in TrialState if state in states],
        lanes=len({(span.worker, span.host) for span in view.spans}),
        content_policy=script_policy([template(PROBE), plotly, *scripts]),
        # Template texts and escaped JSON are the only things that go in as they are.
        style=Markup(template("page.css")),
        probe=Markup(template(PROBE)),
        library=Markup(plotly),
        scripts=[Markup(script) for script in scripts],
        front_json=script_json([rows[trial.number] for trial in view.front]),
        report_json=script_json(found),
    )


def page_scripts() -> list[str]:
    """The page's own scripts, in the order in which they need each other."""
    found = sorted(path.name for path in (TEMPLATES / "js").glob("*.js"))
    return [f"js/{name}" for name in found if f"js/{name}" != PROBE]


def script_json(value: Any) -> Markup:  # noqa: ANN401 - any JSON value
    """JSON that can stand in a script element whatever texts it holds."""
    encoded = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character in _UNSAFE_IN_SCRIPT:
        encoded = encoded.replace(character, f"\\u{ord(character):04x}")
    return Markup(encoded)


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
