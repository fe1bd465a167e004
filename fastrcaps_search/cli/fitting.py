"""Tables that fit into the width at hand: what all rows share is said once, long cells are cut."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from textwrap import TextWrapper, shorten

from fastrcaps_search.cli import output

LEAST = 26
"""Characters that a cell keeps at least which may be cut."""
CUT = "..."


@dataclass(frozen=True, slots=True)
class Columns:
    """What may become of a table's columns, by their heads.

    Attributes:
        shared: May be said once where all rows have the same.
        cut: May be cut between two words, the first one first.
        left_out: May be left out, the first one first.
    """

    shared: Collection[str]
    cut: Sequence[str]
    left_out: Sequence[str]


def terminal_width() -> int:
    """Characters of a line: ``COLUMNS``, else those of the terminal, else 80."""
    return shutil.get_terminal_size().columns


def fitted_lines(rows: Sequence[Sequence[str]], columns: Columns, *, width: int) -> list[str]:
    """Lines of a table, under what was taken out of it.

    Args:
        rows: Its head, and the cells of each row.
        columns: What may become of its columns.
        width: Characters that a line may have.
    """
    table = dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))
    if _excess(table, width) <= 0:
        return output.table_lines(rows)
    same = [name for name in table if name in columns.shared and len({*table[name]}) == 1]
    said = [f"{name} {table[name][0]}" for name in same]
    table = {name: cells for name, cells in table.items() if name not in same}
    left_out: list[str] = []
    while True:
        fitted = _cut(table, columns.cut, width)
        name = next((one for one in columns.left_out if one in table), None)
        if _excess(fitted, width) <= 0 or name is None:
            break
        left_out.append(name)
        table = {other: cells for other, cells in table.items() if other != name}
    between_words = TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    lines = between_words.wrap(f"all: {', '.join(said)}") if said else []
    if left_out:
        lines.append(f"not in {width} columns: {', '.join(left_out)}; --json has all")
    return [*lines, *output.table_lines([tuple(fitted), *zip(*fitted.values(), strict=True)])]


Table = dict[str, tuple[str, ...]]
"""Cells by the head of their column."""


def _excess(table: Table, width: int) -> int:
    """Characters by which the longest line is too long."""
    # Blanks at the end of a line are not printed.
    longest = max(map(len, output.table_lines([tuple(table), *zip(*table.values(), strict=True)])))
    return longest - width


def _cut(table: Table, names: Sequence[str], width: int) -> Table:
    """The table with some cells cut, as far as need be."""
    found = dict(table)
    for name in names:
        if name in found and (excess := _excess(found, width)) > 0:
            most = max(max(map(len, found[name])) - excess, LEAST)
            found[name] = tuple(shorten(cell, most, placeholder=CUT) for cell in found[name])
    return found
