"""What a report may be written as."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """A kind of file; its value is the suffix."""

    HTML = "html"
    PNG = "png"
    SVG = "svg"
    PDF = "pdf"
    CSV = "csv"
    JSON = "json"
