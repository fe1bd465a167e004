"""``report``: a study as a page, images or tables."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from fastrcaps_search.analysis.estimates import read_study as analysed_study
from fastrcaps_search.analysis.front import front_numbers
from fastrcaps_search.cli import commands
from fastrcaps_search.definition.load import stored_name
from fastrcaps_search.errors import StoreUnavailableError, UsageError
from fastrcaps_search.report.facts.trials import MOST_SHOWN
from fastrcaps_search.report.facts.view import StoredStudy
from fastrcaps_search.report.formats import Format
from fastrcaps_search.report.write import write_report
from fastrcaps_search.search.configurations import configuration_count
from fastrcaps_search.store.lease import live_leases
from fastrcaps_search.store.place import DEFAULT_STORAGE, Location
from fastrcaps_search.store.store import Store

FOLDER = "reports"
PAUSE_SECONDS = 2.0
"""Between two looks at a study that is watched."""


def report(arguments: argparse.Namespace) -> int:
    """Write the report and say where it is.

    Raises:
        UsageError: One file for several formats.
    """
    location = commands.location(arguments)
    name = stored_name(arguments.study)
    files = _files(arguments, name)
    known = read_study(location, name)
    _write(known, files)
    over = not arguments.watch
    while not over:
        # Once more after the last trial: it is then that the front meets the test set.
        over = not known.in_progress
        time.sleep(PAUSE_SECONDS)
        found = _glance(location, name)
        if found is not None and changed(known, found):
            known = found
            _write(known, files)
        over = over and not known.in_progress
    return 0


def _files(arguments: argparse.Namespace, name: str) -> list[tuple[Path, Format]]:
    """The files to write."""
    suffix = Path(arguments.out).suffix[1:].lower() if arguments.out else ""
    implied = Format(suffix) if suffix in set(Format) else None
    if arguments.out and not (implied or arguments.format):
        raise UsageError(
            f"--out must end in one of {', '.join(f'.{form}' for form in Format)}, got "
            f"{arguments.out}; or say what it is with --format"
        )
    forms = arguments.format or (implied or Format.HTML,)
    if implied and forms != (implied,):
        raise UsageError(
            f"--out must end as its format does, got {arguments.out} for "
            f"{', '.join(forms)}; leave out one of --out and --format"
        )
    if arguments.out and len(forms) > 1:
        raise UsageError(
            f"--out must be left out with several formats, got {arguments.out}; "
            f"they are written to {FOLDER}/{name}.*"
        )
    return [
        (Path(arguments.out) if arguments.out else page_path(name, form), form) for form in forms
    ]


def _write(stored: StoredStudy, files: Sequence[tuple[Path, Format]]) -> None:
    for path, form in files:
        write_report(stored, path=path, form=form)
        print(path, flush=True)


def _glance(location: Location, name: str) -> StoredStudy | None:
    """The study now; ``None``, said on the way, while the database does not answer."""
    try:
        return read_study(location, name)
    except StoreUnavailableError as error:
        print(f"waits for the database: {error}", file=sys.stderr, flush=True)
        return None


def page_path(name: str, form: Format = Format.HTML) -> Path:
    """Where a report lies unless another place was named."""
    return Path(FOLDER) / f"{name}.{form}"


def read_study(location: Location, name: str) -> StoredStudy:
    """All that a report needs of a stored study."""
    store = Store.reading(location)
    try:
        seen = analysed_study(store, name, epochs=True)
        return StoredStudy(
            study=seen.study,
            trials=seen.trials,
            leases=live_leases(seen.leases),
            claims=store.claims(seen.study),
            storage=_storage_words(location),
            possible=configuration_count(seen.study.definition),
            hits=store.hits(seen.study, front_numbers(seen.trials)[:MOST_SHOWN]),
        )
    finally:
        store.close()


def changed(before: StoredStudy, after: StoredStudy) -> bool:
    """Whether a report would say something new."""
    return _state(before) != _state(after)


def _state(stored: StoredStudy) -> object:
    return (
        (stored.study.budget, stored.study.repeats),
        [
            (
                t.number,
                t.state,
                t.test_accuracy,
                len(t.epochs),
                [(run.run, run.token, run.has_ended) for run in t.runs],
                t.infeasible,
            )
            for t in stored.trials
        ],
        [(lease.key, lease.token) for lease in stored.leases],
    )


def _storage_words(location: Location) -> str | None:
    """What finds the database again; nothing of a server, whose URL may hold secrets."""
    if location.path is None:
        return None
    here = Path.cwd()
    if location.path == here / DEFAULT_STORAGE:
        return ""
    inside = location.path.is_relative_to(here)
    return str(location.path.relative_to(here) if inside else location.path)
