"""The one way in which all pages are filled in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

TEMPLATES = Path(__file__).parent / "templates"


def page_template(name: str, **filters: Callable[..., object]) -> Template:
    """A page's template: values are escaped, and a name that nobody gave is an error.

    Args:
        name: Its file.
        filters: What its values may be piped through.
    """
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment.get_template(name)
