"""``report``: a study as a page, images or tables, once or for as long as it goes on."""

from __future__ import annotations

import argparse
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from fastrcaps_search.analysis.estimates import read_study as analysed_study
from fastrcaps_search.analysis.front import front_numbers
from fastrcaps_search.cli import commands, output
from fastrcaps_search.definition.load import stored_name
from fastrcaps_search.errors import DiskError, StoreUnavailableError, UsageError
from fastrcaps_search.processes import child_command, handle_stops, started
from fastrcaps_search.report.formats import (
    BROWSER_SECONDS,
    FOLDER,
    FOLDER_VARIABLE,
    IMAGES,
    Format,
)
from fastrcaps_search.report.trials import MOST_SHOWN
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.report.write import write_report
from fastrcaps_search.search.again import flag_words
from fastrcaps_search.search.configurations import configuration_count
from fastrcaps_search.store.holders import live_leases
from fastrcaps_search.store.location import (
    DEFAULT_STORAGE,
    STORAGE_FILE_VARIABLE,
    STORAGE_VARIABLE,
    Location,
    locate,
)
from fastrcaps_search.store.store import Store
from fastrcaps_search.typed import path_of

PAUSE_SECONDS = 2.0
"""Between two looks at a study that is watched, at least."""
REST = 10.0
"""The page of a running study that took so long is not written again for so many times that."""
PATIENCE_SECONDS = 10.0
LOWEST_PRIORITY = 19
"""Niceness with which a page takes next to nothing from trainings that are being timed."""


def report(arguments: argparse.Namespace) -> None:
    """Write the report and say where it is.

    Raises:
        UsageError: One file for several formats.
    """
    location = commands.location(arguments)
    name = stored_name(arguments.study)
    files, seconds = _files(arguments, name), arguments.browser_seconds
    known = read_study(location, name)
    write(known, files, seconds)
    if arguments.watch:
        watch(location, name, files, seconds, known=known)


def watch(
    location: Location,
    name: str,
    files: Sequence[tuple[Path, Format]],
    browser_seconds: float = BROWSER_SECONDS,
    *,
    known: ReportView | None = None,
    wait: Callable[[float], object] = time.sleep,
    rest: float = 0.0,
) -> None:
    """Write again whenever the study has changed, until nothing is left to do.

    Args:
        location: Its database.
        name: The study.
        files: What to write.
        browser_seconds: How long a browser may take for an image.
        known: What was written already.
        wait: Waits for so many seconds; something true ends the watch.
        rest: The pause after a look that took so long, times that.
    """
    over, seconds = False, PAUSE_SECONDS if known else 0.0
    while not over and not wait(seconds):
        began = time.monotonic()
        try:
            found = read_study(location, name)
            # Once more after the last trial: it is then that the front meets the test set.
            over = known is not None and not (known.in_progress or found.in_progress)
            if known is None or news(known) != news(found):
                write(found, files, browser_seconds)
            known = found
        except (StoreUnavailableError, DiskError) as error:
            what = "disk" if isinstance(error, DiskError) else "database"
            output.tell(f"waits for the {what}: {error}")
        seconds = max(PAUSE_SECONDS, rest * (time.monotonic() - began))


@contextmanager
def kept_current(name: str, location: Location, folder: Path) -> Iterator[None]:
    """Keep the page of a running study current meanwhile, in a process of the lowest priority.

    It gets the database through its environment, as a password has no place on a command line, and
    ends with its standard input, which the kernel closes too when ``run`` is killed. What goes
    wrong there is not said: the run writes the page itself when it ends.
    """
    process = started(
        child_command("fastrcaps_search.cli.report", name),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, STORAGE_VARIABLE: location.url, FOLDER_VARIABLE: str(folder)},
        # Ctrl-C is for the run, which decides when it ends.
        start_new_session=True,
    )
    try:
        yield
    finally:
        # Before the run writes its last page, which this one must not replace by an older.
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_SECONDS)
        process.kill()
        process.communicate()


def main() -> None:
    """Write the page of the study that is named whenever it has changed, until stdin ends."""
    name = sys.argv[1]

    def ended(seconds: float) -> bool:
        # Nothing is ever written to it, so that it is ready when it has ended.
        return bool(select.select([sys.stdin], [], [], seconds)[0])

    os.setpriority(os.PRIO_PROCESS, 0, LOWEST_PRIORITY)
    # An exit in good order leaves no temporary file behind.
    handle_stops(lambda number, frame: sys.exit())
    page = Path(os.environ[FOLDER_VARIABLE]) / f"{name}.html"
    watch(locate(os.environ[STORAGE_VARIABLE]), name, [(page, Format.HTML)], wait=ended, rest=REST)


def _files(arguments: argparse.Namespace, name: str) -> list[tuple[Path, Format]]:
    """The files to write."""
    out, forms = arguments.out, arguments.format
    if out is None:
        return [(page_folder() / f"{name}.{form}", form) for form in forms or (Format.HTML,)]
    suffix = out.suffix[1:].lower()
    implied = (Format(suffix),) if suffix in set(Format) else ()
    forms = forms or implied
    if not forms:
        raise UsageError(
            f"--out must end in one of {', '.join(f'.{form}' for form in Format)}, got {out}; or "
            "say what it is with --format"
        )
    if implied and forms != implied:
        raise UsageError(
            f"--out must end as its format does, got {out} for {', '.join(forms)}; leave out one "
            "of --out and --format"
        )
    if len(forms) > 1:
        raise UsageError(
            f"--out must be left out with several formats, got {out}; they are written to "
            f"{page_folder()}/{name}.*"
        )
    return [(out, forms[0])]


def write(stored: ReportView, files: Sequence[tuple[Path, Format]], seconds: float) -> None:
    """Write each file, first those that need no browser, and say where it is."""
    for path, form in sorted(files, key=lambda file: file[1] in IMAGES):
        write_report(stored, path=path, form=form, seconds=seconds)
        print(path, flush=True)


def page_folder() -> Path:
    """Where reports lie unless another place was named."""
    return path_of(os.environ.get(FOLDER_VARIABLE) or FOLDER, FOLDER_VARIABLE)


def read_study(location: Location, name: str) -> ReportView:
    """All that a report needs of a stored study."""
    with Store.reading(location) as store:
        seen = analysed_study(store, name, epochs=True)
        return ReportView(
            study=seen.study,
            records=seen.trials,
            leases=live_leases(seen.leases),
            claims=store.claims(seen.study),
            storage=_storage_words(location),
            flags=flag_words(seen.study, location.url),
            possible=configuration_count(seen.study.definition),
            hits=store.hits(seen.study, front_numbers(seen.trials)[:MOST_SHOWN]),
        )


def news(stored: ReportView) -> object:
    """What a report is written again for, when it is another: of leases not their silence."""
    held = [(lease.key, lease.token) for lease in stored.leases]
    return stored.study, stored.records, held


def _storage_words(location: Location) -> str | None:
    """What finds the database again; nothing of a server, whose URL may hold secrets."""
    if location.path is None:
        return "" if os.environ.get(STORAGE_FILE_VARIABLE) else None
    here = Path.cwd()
    if location.path == here / DEFAULT_STORAGE:
        return ""
    inside = location.path.is_relative_to(here)
    return str(location.path.relative_to(here) if inside else location.path)
