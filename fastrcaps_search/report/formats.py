"""What a report may be written as, and where."""

from __future__ import annotations

from enum import StrEnum

FOLDER = "reports"
"""Where pages lie, in the working directory."""
FOLDER_VARIABLE = "FASTRCAPS_REPORT_DIR"
"""Names another folder for them."""

BROWSER_SECONDS = 60.0
"""How long a browser may take for an image, unless asked otherwise."""


class Format(StrEnum):
    """A kind of file; its value is the suffix."""

    HTML = "html"
    PNG = "png"
    SVG = "svg"
    PDF = "pdf"
    CSV = "csv"
    JSON = "json"


IMAGES = (Format.PNG, Format.SVG, Format.PDF)
"""A browser draws them."""
