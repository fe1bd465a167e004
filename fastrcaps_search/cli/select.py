"""``select``: the trial of the front that fits what the user asks for."""

from __future__ import annotations

import argparse

from fastrcaps_search.analysis.estimates import read_study
from fastrcaps_search.analysis.rows import choosable_rows
from fastrcaps_search.cli import output
from fastrcaps_search.cli.criteria_flags import given_criteria
from fastrcaps_search.cli.show import opened
from fastrcaps_search.front.criteria import Criteria
from fastrcaps_search.front.selection import select_row


def select(arguments: argparse.Namespace) -> int:
    """Print the trial and why it is the one."""
    criteria = given_criteria(arguments) or Criteria()
    with opened(arguments) as (store, study):
        rows = choosable_rows(read_study(store, study.name).trials)
    row = select_row(rows, criteria)
    if arguments.json:
        output.print_json(row)
    else:
        output.print_trials([row])
        print(row["why"])
    return 0
