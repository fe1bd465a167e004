"""The sections of a study's page: the panels that have something to say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

from fastrcaps_search.errors import UsageError
from fastrcaps_search.report.panel import PANELS, Panel, Plot, Table
from fastrcaps_search.report.plots import Drawing
from fastrcaps_search.report.view import ReportView

OURS: tuple[Panel[Any], ...] = tuple(
    PANELS.register(resolve_name(f"fastrcaps_search.report.panels.{name}:PANEL"))
    for name in (
        *("front", "selection", "card", "uncertainty", "pairs", "paper_table", "why"),
        *("importance", "effects", "learning", "schedules", "progress", "workers"),
        *("trials", "protocol"),
    )
)
"""Those of this package, in the order of the page."""


@dataclass(frozen=True, slots=True)
class Section:
    """A panel with the facts, figures and tables of one study."""

    panel: Panel[Any]
    info: Any
    parts: Sequence[Plot | Table]

    @property
    def plots(self) -> tuple[Plot, ...]:
        """Its figures."""
        return tuple(part for part in self.parts if isinstance(part, Plot))

    @property
    def tables(self) -> tuple[Table, ...]:
        """Its tables."""
        return tuple(part for part in self.parts if isinstance(part, Table))

    @property
    def link(self) -> str:
        """Its name in the list of sections; empty where it is not listed."""
        return self.panel.title if self.panel.link is None else self.panel.link


def all_panels() -> tuple[Panel[Any], ...]:
    """Ours, then those of plug-ins, which may have been registered before."""
    return (*OURS, *(panel for panel in PANELS if panel not in OURS))


def sections(view: ReportView) -> tuple[Section, ...]:
    """The sections of a study.

    Raises:
        UsageError: Two figures have one name.
    """
    found = [
        Section(panel, info, tuple(panel.draw(info)))
        for panel in all_panels()
        if (info := panel.gather(view)) is not None
    ]
    names = [part.name for section in found for part in section.parts]
    for name in set(names):
        if names.count(name) > 1:
            raise UsageError(
                f'a figure or table must have a name of its own, got a second "{name}"; '
                "rename the one of the plug-in"
            )
    return tuple(found)


def figures(found: Sequence[Section]) -> dict[str, Mapping[str, Drawing]]:
    """Every figure, by the id of its place, then by measure of time or ``ALWAYS``."""
    return {plot.name: plot.variants for section in found for plot in section.plots}
