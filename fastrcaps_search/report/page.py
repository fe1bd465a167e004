"""The report as one HTML file that needs nothing else and asks no network for anything."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from fastrcaps_search.report.header import tiles
from fastrcaps_search.report.payload import payload
from fastrcaps_search.report.plotly_io import plotly_script
from fastrcaps_search.report.sections import Section, sections
from fastrcaps_search.report.templating import TEMPLATES, page_template
from fastrcaps_search.report.view import ReportView

PROBE = "js/probe.js"
FIRST = ("core", "state", "marked", "figures")
"""Scripts of all pages, before those of the panels; ``page`` is the last."""

_UNSAFE_IN_SCRIPT = "<>&\u2028\u2029"


def page(view: ReportView) -> str:
    """The whole page."""
    found = sections(view)
    scripts = page_scripts(found)
    plotly, probe = plotly_script(), template(PROBE)
    return page_template("page.html.j2").render(
        view=view,
        tiles=tiles(view),
        sections=[(section, Markup(_section(section, view))) for section in found],
        content_policy=script_policy([probe, plotly, *scripts]),
        # Template texts and escaped JSON are the only things that go in as they are.
        style=Markup(template("page.css")),
        probe=Markup(probe),
        library=Markup(plotly),
        scripts=[Markup(script) for script in scripts],
        report_json=script_json(payload(view, found)),
    )


def _section(section: Section, view: ReportView) -> str:
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
