"""``report``: the page of a study."""

from __future__ import annotations

import argparse
from pathlib import Path

from fastrcaps_search.cli.show import opened
from fastrcaps_search.report.page import write_report
from fastrcaps_search.store.lease import live_leases
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store

FOLDER = "reports"


def report(arguments: argparse.Namespace) -> int:
    """Write the page and say where it is."""
    with opened(arguments) as (store, study):
        path = write_page(store, study, Path(arguments.out) if arguments.out else None)
    print(path)
    return 0


def write_page(store: Store, study: StudyRecord, path: Path | None = None) -> Path:
    """Write the page of a study; its path."""
    path = path or Path(FOLDER) / f"{study.name}.html"
    trials = store.trials(study, epochs=True)
    write_report(study, trials, live_leases(store.leases(study)), path=path)
    return path
