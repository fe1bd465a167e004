"""``trials``, ``front``, ``select`` and ``compare``: what is stored."""

from __future__ import annotations

import argparse

from fastrcaps_search.analysis.comparing import comparison_row
from fastrcaps_search.analysis.estimates import read_study
from fastrcaps_search.analysis.front import without_network
from fastrcaps_search.analysis.rows import choosable_rows, front_rows, trial_rows
from fastrcaps_search.cli import commands, output
from fastrcaps_search.cli.texts import given_criteria
from fastrcaps_search.errors import UsageError
from fastrcaps_search.front.criteria import Criteria
from fastrcaps_search.front.selection import select_row
from fastrcaps_search.search.again import run_words, study_words
from fastrcaps_search.store import setting_aside
from fastrcaps_search.store.holders import live_leases
from fastrcaps_search.store.reading import Snapshot
from fastrcaps_search.store.store import opened_study

NEAR_THE_EDGE = "; the interval is approximate, p is exact"
"""Said where only one of them leaves out that both are equally good."""


def _read(arguments: argparse.Namespace) -> Snapshot:
    with opened_study(commands.location(arguments), arguments.study) as (store, study):
        return read_study(store, study.name)


def trials(arguments: argparse.Namespace) -> None:
    """Print every trial, after one was set aside or taken back where that was asked for.

    Raises:
        UsageError: The trial or the reason is not one that can be; see ``setting_aside``.
    """
    _change(arguments)
    seen = _read(arguments)
    rows = trial_rows(seen.trials, live_leases(seen.leases))
    if arguments.json:
        output.print_json(rows)
    else:
        output.print_trials(rows, device=seen.study.reference_device)


def _change(arguments: argparse.Namespace) -> None:
    number = arguments.include if arguments.exclude is None else arguments.exclude
    if (arguments.exclude is None) != (arguments.why is None):
        given = "--why" if arguments.exclude is None else "--exclude"
        beside = "" if arguments.include is None else "; --include takes no reason"
        raise UsageError(f"--exclude and --why must be given together, got only {given}{beside}")
    if number is None:
        return
    location = commands.location(arguments)
    with opened_study(location, arguments.study, writing=True) as (store, study):
        if arguments.why is None:
            setting_aside.include(store, study, number)
            return
        setting_aside.exclude(store, study, number, why=arguments.why)
        gone = without_network(read_study(store, study.name).trials)
    if gone:
        run = run_words(study, location, arguments.storage)
        output.tell(f"now {output.without_network(gone, study=run)}")


def front(arguments: argparse.Namespace) -> None:
    """Print the trials on the front."""
    seen = _read(arguments)
    rows, study = front_rows(seen.trials), seen.study
    if arguments.json:
        output.print_json(rows)
    elif not rows and any(trial.infeasible for trial in seen.trials):
        words = study_words(study.name, commands.location(arguments), arguments.storage)
        print(output.no_front(words))
    else:
        run = run_words(study, commands.location(arguments), arguments.storage)
        output.print_front(rows, study, run=run)


def select(arguments: argparse.Namespace) -> None:
    """Print the trial and why it is the one."""
    criteria = given_criteria(arguments) or Criteria()
    seen = _read(arguments)
    row = select_row(choosable_rows(seen.trials), criteria)
    if arguments.json:
        output.print_json(row)
    else:
        output.print_trials([row], device=seen.study.reference_device)
        print(row["why"])


def compare(arguments: argparse.Namespace) -> None:
    """Print how the networks of two trials differ, and how sure that is."""
    with opened_study(commands.location(arguments), arguments.study) as (store, study):
        row = comparison_row(store, study, *arguments.trials)
    if arguments.json:
        output.print_json(row)
        return
    images = f"the {row['images']:,} images of the {study.definition.evaluate_on.images}"
    rows = [
        (one["trial"], one["run"], output.fraction(one["accuracy"]), f"{one['only']:,} images")
        for one in row["networks"]
    ]
    output.print_table([("trial", "run", "accuracy", "only this one is right"), *rows])
    difference, low, high = (100 * row[key] for key in ("difference", "low", "high"))
    agree = (low > 0 or high < 0) == (row["p_value"] < 0.05)
    print(
        f"difference {difference:+.2f} points, 95 % interval {low:+.2f} to {high:+.2f}; "
        f"exact McNemar test: p = {row['p_value']:.2g}"
        f"{'' if agree else NEAR_THE_EDGE}"
    )
    print(
        f"On {images}; of these two networks, each its trial's run of highest accuracy, not of "
        "their configurations: other seeds give other networks."
    )
