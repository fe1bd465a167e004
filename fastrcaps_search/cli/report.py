"""``report``: a study as a page, images or tables."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fastrcaps_search.analysis.estimates import read_study as analysed_study
from fastrcaps_search.analysis.front import front_numbers
from fastrcaps_search.cli import commands
from fastrcaps_search.definition.load import stored_name
from fastrcaps_search.errors import FastrcapsError, StoreUnavailableError, UsageError
from fastrcaps_search.report.formats import Format
from fastrcaps_search.report.trials import MOST_SHOWN
from fastrcaps_search.report.view import StoredStudy
from fastrcaps_search.report.write import write_report
from fastrcaps_search.search.configurations import configuration_count
from fastrcaps_search.store.holders import live_leases
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
    write(known, files)
    if arguments.watch:
        watch(location, name, files, known=known)
    return 0


def sleep(seconds: float) -> bool:
    """Wait; nothing ends the wait for good."""
    time.sleep(seconds)
    return False


def watch(
    location: Location,
    name: str,
    files: Sequence[tuple[Path, Format]],
    *,
    known: StoredStudy | None = None,
    wait: Callable[[float], bool] = sleep,
    pause_seconds: float = PAUSE_SECONDS,
    rest: float = 0.0,
    bears: type[FastrcapsError] = StoreUnavailableError,
) -> None:
    """Write again whenever the study has changed, until nothing is left to do.

    Args:
        location: Its database.
        name: The study.
        files: What to write.
        known: What was written already.
        wait: Waits for so many seconds; whether to end.
        pause_seconds: Between two looks, at least.
        rest: The pause after a look that took so long, times that: the page of a long study takes
            seconds.
        bears: What may go wrong in a look, which is said; the next one may find it mended.
    """
    over, seconds = False, pause_seconds if known else 0.0
    while not over and not wait(seconds):
        began = time.monotonic()
        try:
            found = read_study(location, name)
            # Once more after the last trial: it is then that the front meets the test set.
            over = known is not None and not (known.in_progress or found.in_progress)
            if known is None or changed(known, found):
                write(found, files)
            known = found
        except bears as error:
            print(f"waits for the database: {error}", file=sys.stderr, flush=True)
        seconds = max(pause_seconds, rest * (time.monotonic() - began))


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


def write(stored: StoredStudy, files: Sequence[tuple[Path, Format]]) -> None:
    """Write each file and say where it is."""
    for path, form in files:
        write_report(stored, path=path, form=form)
        print(path, flush=True)


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
