"""The one way in which all pages are filled in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from fastrcaps_search.report import text

TEMPLATES = Path(__file__).parent / "templates"


def page_template(name: str | Path, **filters: Callable[..., object]) -> Template:
    """A template: values are escaped, and a name that nobody gave is an error.

    Args:
        name: Its file, among the templates of this package if it is a name alone.
        filters: What its values may be piped through, beside percent, seconds and count.
    """
    path = TEMPLATES / name
    environment = Environment(
        loader=FileSystemLoader([path.parent, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    usual = {"percent": text.percent, "seconds": text.seconds, "count": text.count}
    environment.filters.update({**usual, **filters})
    return environment.get_template(path.name)
