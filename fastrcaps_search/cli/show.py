"""``status``, ``trials``, ``front``, ``select`` and ``compare``: what is stored."""

from __future__ import annotations

import argparse
import sys

from fastrcaps_search.analysis.comparing import comparison_row
from fastrcaps_search.analysis.estimates import read_study
from fastrcaps_search.analysis.front import without_network
from fastrcaps_search.analysis.rows import choosable_rows, front_rows, trial_rows
from fastrcaps_search.analysis.summary import StudySummary, summarise
from fastrcaps_search.cli import commands, output
from fastrcaps_search.cli.texts import given_criteria
from fastrcaps_search.definition.objective import OBJECTIVES
from fastrcaps_search.errors import UsageError
from fastrcaps_search.front.criteria import Criteria
from fastrcaps_search.front.selection import select_row
from fastrcaps_search.report import text
from fastrcaps_search.search import files
from fastrcaps_search.search.configurations import configuration_count
from fastrcaps_search.store import setting_aside
from fastrcaps_search.store.holders import LeaseRecord, live_leases
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import opened_study

NEAR_THE_EDGE = "; the interval is approximate, p is exact"
"""Said where only one of them leaves out that both are equally good."""


def status(arguments: argparse.Namespace) -> int:
    """Print counts, hypervolume and workers."""
    with opened_study(commands.location(arguments), arguments.study) as (store, study):
        seen = read_study(store, study.name)
        leases = live_leases(seen.leases)
        possible = configuration_count(study.definition)
        summary = summarise(seen.study, seen.trials, leases, possible=possible)
        left = len(summary.work.repeats)
        used = files.used_bytes(store.location, study)
        folder = files.study_folder(store.location, study)
    if arguments.json:
        more = {"runs_on_front": study.front_runs, "repeats_left": left, "disk_bytes": used}
        shown = {**_status_json(study, summary, leases), **more}
        if left and summary.eta_seconds == 0:
            # Of repeats nobody knows how many more will follow.
            shown["eta_seconds"] = None
        output.print_json(shown)
        return 0
    infeasible = f", {summary.infeasible} of them infeasible" if summary.infeasible else ""
    print(
        f"{study.name}: {summary.finished}/{summary.budget} trials done "
        f"({summary.complete} complete{infeasible}, {summary.failed} failed), "
        f"{summary.running} running"
    )
    if summary.hypervolume is not None and summary.box is not None:
        edges = ", ".join(
            f"{one.label} {output.plain(f'{text.edge(one, worst)} to {text.edge(one, best)}')}"
            for name, (worst, best) in summary.box.edges.items()
            for one in [OBJECTIVES[name]]
        )
        print(f"hypervolume {summary.hypervolume:.4f} of the box of {edges}")
    if summary.work.is_searching:
        print(f"time left: {output.duration(summary.eta_seconds)}")
    if study.front_runs:
        so_far = " so far" if summary.work.is_searching else ""
        print(
            f"repeats: {left} to go until each trial on or near the front{so_far} has "
            f"{study.front_runs} runs"
        )
    for lease in leases:
        print(
            f"{lease.worker} on {lease.device}, {lease.host_name}: trial {lease.number}"
            f"{_purpose(lease, study)}"
        )
    print(f"disk: {output.megabytes(used)} in {folder}")
    return 0


def _purpose(lease: LeaseRecord, study: StudyRecord) -> str:
    """Which run of a trial is held, and what for, where that goes without saying not."""
    run = f", run {lease.run}" if lease.run or study.definition.runs_per_trial > 1 else ""
    return run if lease.is_training else f"{run}, the test set"


def trials(arguments: argparse.Namespace) -> int:
    """Print every trial, after one was set aside or taken back where that was asked for.

    Raises:
        UsageError: The trial or the reason is not one that can be; see ``setting_aside``.
    """
    _change(arguments)
    with opened_study(commands.location(arguments), arguments.study) as (store, study):
        rows = trial_rows(read_study(store, study.name).trials)
    if arguments.json:
        output.print_json(rows)
    else:
        output.print_trials(rows)
    return 0


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
        print(
            f"now on the front without a network: {', '.join(map(str, gone))}; `export` needs "
            f"one, which `fastrcaps-search run --study {study.name} --runs-on-front R` trains (R "
            "above their runs)",
            file=sys.stderr,
        )


def front(arguments: argparse.Namespace) -> int:
    """Print the trials on the front."""
    with opened_study(commands.location(arguments), arguments.study) as (store, study):
        found = read_study(store, study.name).trials
    rows = front_rows(found)
    if arguments.json:
        output.print_json(rows)
    elif not rows and any(trial.infeasible for trial in found):
        print(output.no_front(study.name))
    else:
        output.print_front(rows, study=study.name, front_runs=study.front_runs)
    return 0


def _status_json(
    study: StudyRecord, summary: StudySummary, leases: list[LeaseRecord]
) -> dict[str, object]:
    return {
        "study": study.name,
        "budget": summary.budget,
        "complete": summary.complete,
        "failed": summary.failed,
        "running": summary.running,
        "workers": [
            {
                "worker": lease.worker,
                "host": lease.host_name,
                "pid": lease.pid,
                "device": lease.device,
                "trial": lease.number,
                "run": lease.run,
                "purpose": lease.purpose,
            }
            for lease in leases
        ],
        "hypervolume": summary.hypervolume,
        "eta_seconds": summary.eta_seconds,
        "hypervolume_box": None if summary.box is None else summary.box.edges,
        "infeasible": summary.infeasible,
    }


def select(arguments: argparse.Namespace) -> int:
    """Print the trial and why it is the one."""
    criteria = given_criteria(arguments) or Criteria()
    with opened_study(commands.location(arguments), arguments.study) as (store, study):
        rows = choosable_rows(read_study(store, study.name).trials)
    row = select_row(rows, criteria)
    if arguments.json:
        output.print_json(row)
    else:
        output.print_trials([row])
        print(row["why"])
    return 0


def compare(arguments: argparse.Namespace) -> int:
    """Print how the networks of two trials differ, and how sure that is."""
    with opened_study(commands.location(arguments), arguments.study) as (store, study):
        row = comparison_row(store, study, *arguments.trials)
    if arguments.json:
        output.print_json(row)
        return 0
    images = f"the {row['images']:,} images of the {study.definition.evaluate_on.images}"
    head = ("trial", "run", "accuracy", "only this one is right")
    output.print_table(
        head,
        [
            (
                str(one["trial"]),
                str(one["run"]),
                output.fraction(one["accuracy"]),
                f"{one['only']:,} images",
            )
            for one in row["networks"]
        ],
    )
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
    return 0
