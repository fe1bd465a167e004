"""What a panel of the page is: facts gathered from a study, figures and tables, and sentences.

A panel is one module that registers itself in :data:`PANELS`. One from outside stands in a module
that a plug-in names (see ``registry``); it comes after those of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fastrcaps_search.registry import Registry

if TYPE_CHECKING:
    from fastrcaps_search.report.plots import Drawing
    from fastrcaps_search.report.view import ReportView

Info = TypeVar("Info")

ALWAYS = "always"
"""Variant of a figure that is the same in every measure of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A figure and what stands around it.

    Attributes:
        name: Id of its place on the page.
        drawing: The figure in Plotly's terms.
        words: What it shows, for those who do not see it.
        title: Above it, if it needs one beside the panel's.
        note: Below the title.
        caption: Below the figure.
        height: ``low``, ``wide`` (and high), or a number of rem; the usual one if left out.
        scrolls: Whether it keeps its width on a narrow screen.
        has_keys: Whether arrow keys go from trial to trial.
        by_time: The figure by measure of training time, instead of ``drawing``.
    """

    name: str
    drawing: Drawing = field(default_factory=dict)
    words: str = ""
    title: str = ""
    note: str = ""
    caption: str = ""
    height: str | float = ""
    scrolls: bool = False
    has_keys: bool = False
    by_time: Mapping[str, Drawing] = field(default_factory=dict)

    @property
    def variants(self) -> Mapping[str, Drawing]:
        """The figure by measure of time, or by :data:`ALWAYS`."""
        return self.by_time or {ALWAYS: self.drawing}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    r"""A table of texts.

    Attributes:
        name: Its id on the page.
        words: What it holds, for those who do not see it.
        title: Above it, if it needs one beside the panel's.
        note: Below the title.
        head: Titles of the columns; a line break is ``\n``.
        left: Titles of the columns of words, which stand at the left; numbers stand at the right.
        rows: Texts; the first one names its row, and the last one of a short row fills it.
    """

    name: str
    words: str
    title: str = ""
    note: str = ""
    head: Sequence[str]
    left: Sequence[str] = ()
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel(Generic[Info]):
    """One section of the page.

    Attributes:
        name: Id of the section.
        title: Its heading.
        link: Its name in the list of sections; not listed if empty, as the heading if left out.
        gather: The facts of a study; ``None`` where there is nothing to say.
        draw: Its figures and tables.
        note: Its sentences, a paragraph each, before them; plain text but for ``Markup``.
        module: File of its module, where beside it stand a template of its own, ``.html.j2``,
            which gets ``section``, ``info``, ``notes`` and ``view``, or a script of its own,
            ``.js``; the page allows no other.
        data: What its script reads as ``report.data.panels[name]``: JSON values.
        is_aside: Whether it stands beside the others, in view.
    """

    name: str
    title: str
    link: str | None = None
    gather: Callable[[ReportView], Info | None]
    draw: Callable[[Info], Iterable[Plot | Table]] = lambda _: ()
    note: Callable[[Info], Sequence[str]] = lambda _: ()
    module: str = ""
    data: Callable[[Info], Any] | None = None
    is_aside: bool = False

    def beside(self, suffix: str) -> Path | None:
        """The file of its own with that suffix, if it has one."""
        found = Path(self.module).with_suffix(suffix) if self.module else None
        return found if found is not None and found.is_file() else None


PANELS: Registry[Panel[Any]] = Registry("panel")
