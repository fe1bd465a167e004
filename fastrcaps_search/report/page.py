"""The report as one HTML file that needs nothing else and asks no network for anything."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fastrcaps_search.errors import DiskError
from fastrcaps_search.report import text
from fastrcaps_search.report.figures import figures, library
from fastrcaps_search.report.marks import dark_colours
from fastrcaps_search.report.view import ReportView, report_view
from fastrcaps_search.store.records import LeaseRecord, StudyRecord, TrialRecord

TEMPLATES = Path(__file__).parent / "templates"

_UNSAFE_IN_SCRIPT = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def write_report(
    study: StudyRecord,
    trials: Sequence[TrialRecord],
    leases: Sequence[LeaseRecord],
    *,
    path: Path,
    written_at: datetime | None = None,
) -> None:
    """Write the page, or leave the one that is there as it is.

    Args:
        study: The study.
        trials: Its trials, with their epochs.
        leases: Who trains what now.
        path: The HTML file; its folder is made if need be.
        written_at: The date that the page shows, now if left out.

    Raises:
        DiskError: The file cannot be written there.
    """
    view = report_view(
        study,
        trials,
        leases,
        written_at=(written_at or datetime.now(UTC)).astimezone(UTC),
        version=_version(),
    )
    try:
        _replace(path, page(view))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DiskError(
            f"the report must be writable at {path}, got: {reason}; "
            "free space there or name another path"
        ) from error


def page(view: ReportView) -> str:
    """The whole page."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=text.percent,
        seconds=text.seconds,
        count=text.count,
        trials=lambda numbers: text.numbered("trial", numbers),
    )
    drawn = {
        name: {"data": figure["data"], "layout": figure["layout"]}
        for name, figure in (
            (name, figure.to_plotly_json()) for name, figure in figures(view).items()
        )
    }
    scripts = (library(), _template("page.js"))
    return environment.get_template("page.html.j2").render(
        view=view,
        drawn=drawn,
        policy=_content_policy(scripts),
        # Template texts and escaped JSON are the only things that go in as they are.
        style=Markup(_template("page.css")),
        scripts=[Markup(script) for script in scripts],
        figures_json=script_json({"figures": drawn, "dark": dark_colours()}),
        front_json=script_json(view.front_rows),
    )


def script_json(value: Any) -> Markup:  # noqa: ANN401 - any JSON value
    """JSON that can stand in a script element whatever texts it holds."""
    encoded = json.dumps(value, allow_nan=False, ensure_ascii=False)
    return Markup(encoded.translate(_UNSAFE_IN_SCRIPT))


def _content_policy(scripts: Sequence[str]) -> str:
    """Only these scripts, no network at all; Plotly sets styles and draws through data URLs."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _version() -> str:
    try:
        return metadata.version("fastrcaps-search")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _replace(path: Path, content: str) -> None:
    """Write beside ``path``, then rename: a reader sees the old page or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
