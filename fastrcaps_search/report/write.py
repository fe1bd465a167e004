"""Reports as files, each whole or not at all."""

from __future__ import annotations

import tempfile
from pathlib import Path

from fastrcaps_search.disk import disk_errors, replace_file
from fastrcaps_search.report.formats import BROWSER_SECONDS, Format
from fastrcaps_search.report.view import ReportView


def write_report(
    view: ReportView, *, path: Path, form: Format = Format.HTML, seconds: float = BROWSER_SECONDS
) -> None:
    """Write the report, or leave the file that is there as it is.

    Args:
        view: The study with its trials and their epochs.
        path: The file; its folder is made if need be.
        form: What to write.
        seconds: How long a browser may take for an image.

    Raises:
        DiskError: The file cannot be written there.
        FastrcapsError: An image that cannot be drawn.
    """
    if form in (Format.CSV, Format.JSON):
        from fastrcaps_search.report.tables import csv_text, json_text

        written = csv_text if form is Format.CSV else json_text
        content: str | bytes = written([trial.row for trial in view.trials])
    elif form is Format.HTML:
        from fastrcaps_search.report.page import page

        content = page(view)
    else:
        from fastrcaps_search.report.plotly_io import image

        content = image(view, form, seconds=seconds)
    write_file(path, content)


def write_file(path: Path, content: str | bytes) -> None:
    """Write a page or an image; a reader sees the old file or the new one, whole.

    Args:
        path: The file; its folder is made if need be.
        content: The whole of it. What is no character, as in some names of files, is escaped.

    Raises:
        DiskError: The file cannot be written there.
    """
    whole = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    with disk_errors("the report", path):
        replace_file(path, whole)


def check_folder(folder: Path) -> None:
    """Make a folder where it is missing, and find out whether reports can be written there.

    Raises:
        DiskError: They cannot.
    """
    with disk_errors("the report", folder):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
