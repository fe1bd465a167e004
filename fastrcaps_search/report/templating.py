"""The one way in which all pages are filled in."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from fastrcaps_search.report import text

TEMPLATES = Path(__file__).parent / "templates"


def page_template(name: str | Path) -> Template:
    """A template: values are escaped, and a name that nobody gave is an error.

    Its values may be piped through percent, seconds, count and duration.

    Args:
        name: Its file, among the templates of this package if it is a name alone.
    """
    path = TEMPLATES / name
    environment = Environment(
        loader=FileSystemLoader([path.parent, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    compact = {"allow_nan": False, "ensure_ascii": False, "separators": (",", ":")}
    environment.policies["json.dumps_kwargs"] = compact
    filters = (text.percent, text.seconds, text.count, text.duration)
    environment.filters.update({each.__name__: each for each in filters})
    return environment.get_template(path.name)
