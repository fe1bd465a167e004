"""Tables in the width of a terminal, compared with what is written out by hand."""

from __future__ import annotations

import re

import pytest

from fastrcaps_search.cli.fitting import Columns, fitted_lines
from fastrcaps_search.cli.output import table_lines
from fastrcaps_search.cli.status import COLUMNS, HEAD

XEON = "CPU Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz"
ROWS = [
    HEAD,
    ("worker-0", "vm", XEON, "slurm 17", "trains trial 12 run 3", "17/300", "12,345", "1 s ago"),
    (
        *("worker-1", "vm", XEON, "slurm 17"),
        "waits for trial 12 (worker-0, process 25130 on vm), trial 13 (worker-7, process 1 on c)",
        *("-", "-", "19 s ago, suspended"),
    ),
]


def test_what_all_rows_share_is_said_once_and_long_words_are_cut_between_words() -> None:
    assert fitted_lines(ROWS, COLUMNS, width=80) == [
        "all: host vm, device CPU Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz, job",
        "slurm 17",
        "worker    does                   epoch   images/s  seen",
        "worker-0  trains trial 12 run 3  17/300  12,345    1 s ago",
        "worker-1  waits for trial 12...  -       -         19 s ago, suspended",
    ]


def test_where_there_is_room_nothing_is_changed() -> None:
    assert fitted_lines(ROWS, COLUMNS, width=300) == table_lines(ROWS)


def test_a_column_that_has_no_place_is_named() -> None:
    other = ("worker-2", "another-host", "cuda:0 (NVIDIA H200)", "-", *ROWS[1][4:])
    lines = fitted_lines([*ROWS, other], COLUMNS, width=80)
    assert lines[0] == "not in 80 columns: job, device, host; --json has all"
    assert lines[1].split() == ["worker", "does", "epoch", "images/s", "seen"]
    lines = fitted_lines([*ROWS, other], COLUMNS, width=90)
    assert lines[0] == "not in 90 columns: job, device; --json has all"
    assert lines[1].split() == ["worker", "host", "does", "epoch", "images/s", "seen"]
    assert lines[4].split()[:2] == ["worker-2", "another-host"]


@pytest.mark.parametrize("width", range(70, 260, 7))
def test_no_line_is_too_long_and_no_number_is_cut(width: int) -> None:
    lines = fitted_lines(ROWS, COLUMNS, width=width)
    # What is left of the narrowest takes that much.
    assert max(map(len, lines)) <= max(width, 76)
    known = {word for row in ROWS for cell in row for word in re.findall(r"[\d,./]*\d", cell)}
    shown = {word for line in lines for word in re.findall(r"[\d,./]*\d", line)}
    assert shown <= known | {str(width)}


def test_a_table_of_one_row_has_nothing_that_rows_share_but_its_place() -> None:
    columns = Columns(shared=("b",), cut=(), left_out=())
    assert fitted_lines([("a", "b"), ("x" * 8, "y" * 8)], columns, width=16) == [
        "all: b yyyyyyyy",
        "a",
        "xxxxxxxx",
    ]
