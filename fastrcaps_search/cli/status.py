"""``status``: how far a study is, who works on it, and what is stuck; once or again and again."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

from fastrcaps_search.analysis.estimates import estimated
from fastrcaps_search.analysis.signs import Life, WorkerStatus
from fastrcaps_search.analysis.summary import StudySummary, status_of
from fastrcaps_search.cli import commands, output, streams
from fastrcaps_search.cli.fitting import Columns, fitted_lines, terminal_width
from fastrcaps_search.definition.load import stored_name
from fastrcaps_search.definition.objective import OBJECTIVES
from fastrcaps_search.errors import DiskError, StoreUnavailableError
from fastrcaps_search.report import text
from fastrcaps_search.search.again import run_line
from fastrcaps_search.search.configurations import configuration_count
from fastrcaps_search.search.room import Room, used_room
from fastrcaps_search.store.holders import GIVEN_BACK, JobRecord
from fastrcaps_search.store.location import FILES_VARIABLE
from fastrcaps_search.store.reading import Snapshot
from fastrcaps_search.store.records import SecondsBasis, StudyRecord
from fastrcaps_search.store.store import Store

HEAD = ("worker", "host", "device", "job", "does", "epoch", "images/s", "seen")
COLUMNS = Columns(
    shared=("host", "device", "job"), cut=("device", "does"), left_out=("job", "device", "host")
)
AGE = re.compile(r"\d+ s\b")
"""In words on a worker that is not heard."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a study shows.

    Attributes:
        study: The study.
        summary: How it stands.
        jobs: Its jobs that an engine has, as a run last saw them.
        rooms: Room that its files take, by place.
    """

    study: StudyRecord
    summary: StudySummary
    jobs: tuple[JobRecord, ...]
    rooms: tuple[Room, ...]

    @property
    def disk_bytes(self) -> int | None:
        """Room that they take together; ``None`` where that of a place is unknown."""
        sizes = [room.bytes for room in self.rooms]
        return None if None in sizes else sum(size or 0 for size in sizes)


class Looker:
    """Looks at a study; what takes a moment is worked out again only when its trials have changed.

    Args:
        arguments: Which study, and where it is.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._location = commands.location(arguments)
        self._typed, self._storage = arguments.study, arguments.storage
        self._name = stored_name(arguments.study)
        self._is_named = bool(arguments.files or os.environ.get(FILES_VARIABLE))
        self._known: tuple[Snapshot, Snapshot, int | None, tuple[Room, ...]] | None = None

    def __call__(self) -> Look:
        """Look at it.

        Raises:
            StoreError: The database cannot be used, or holds no such study.
        """
        with Store.reading(self._location) as store:
            read, signs = store.status(self._name)
        known = self._known
        if known is None or (known[0].study, known[0].trials) != (read.study, read.trials):
            study, location = read.study, self._location
            trials = estimated(read.trials, study=study)
            possible = configuration_count(study.definition)
            rooms = used_room(location, study, trials, is_named=self._is_named)
            self._known = known = read, replace(read, trials=trials), possible, rooms
        _, seen, possible, rooms = known
        line = run_line(read.study, self._location, self._storage, name=str(self._typed))
        seen = replace(seen, leases=read.leases)
        summary = status_of(seen, signs, possible=possible, run=line)
        # Of those that were given back nobody knows more after a while.
        jobs = (one for one in signs.jobs if one.is_watched or one.state != GIVEN_BACK)
        return Look(read.study, summary, tuple(jobs), rooms)


def status(arguments: argparse.Namespace) -> None:
    """Print how the study stands; for as long as it goes on where that was asked for.

    Raises:
        StoreError: The database cannot be used, or holds no such study.
        BrokenPipeError: Whoever read has gone.
    """
    looker = Looker(arguments)
    first = looker()
    if arguments.watch is not None:
        _watch(looker, first, arguments.watch, is_json=arguments.json)
    elif arguments.json:
        output.print_json(_json(first))
    else:
        print("\n".join(_lines(first)))


def _watch(looker: Looker, look: Look, seconds: float, *, is_json: bool) -> None:
    """Show one look after the other until the study is done."""
    shown = _printed(is_json=is_json) if is_json or not streams.can_be_live() else _redrawn()
    with shown as show:
        show(look, None)
        while not look.summary.is_over:
            streams.wait_for_reader(seconds)
            outage = None
            try:
                look = looker()
            except (StoreUnavailableError, DiskError) as error:
                what = "disk" if isinstance(error, DiskError) else "database"
                outage = f"waits for the {what}: {error}"
            show(look, outage)


Show = Callable[[Look, str | None], None]
"""Shows a look, the last one in an outage of the database, and what is to be said of that."""


@contextmanager
def _redrawn() -> Iterator[Show]:
    """Lines that are written over."""
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False) as live:

        def show(look: Look, outage: str | None) -> None:
            lines = [*_lines(look), *([] if outage is None else [outage])]
            live.update(Text("\n".join(lines)), refresh=True)

        yield show


@contextmanager
def _printed(*, is_json: bool) -> Iterator[Show]:
    """A block of lines, or a line of JSON, whenever something has changed."""
    before: object = None
    was_out = False

    def show(look: Look, outage: str | None) -> None:
        nonlocal before, was_out
        if outage is not None and not was_out:
            output.tell(outage)
        elif outage is None and was_out:
            output.tell("the database is back")
        was_out = outage is not None
        news = _news(look)
        if news == before:
            return
        if is_json:
            output.print_json(_json(look), indent=None)
        else:
            # An empty line between two blocks.
            print("\n".join([*([] if before is None else [""]), *_lines(look)]))
        before = news
        sys.stdout.flush()

    yield show


def _news(look: Look) -> object:
    """What a look is printed again for, when it is another: neither ages nor speeds."""
    summary = look.summary
    workers = [
        replace(
            one,
            images_per_second=None,
            started_at=None,
            silent_seconds=0.0,
            waits_for=one.waits_for and AGE.sub("", one.waits_for),
        )
        for one in summary.workers
    ]
    # The words of a worker that is silent say for how long.
    stuck = [
        (one.kind, one.worker, one.host, one.trial, one.run, one.worker or one.why)
        for one in summary.stuck
    ]
    counts = (summary.budget, summary.complete, summary.infeasible, summary.failed)
    under_way = (summary.running, summary.interrupted, summary.work, workers)
    jobs = [replace(job, seen_seconds_ago=0.0) for job in look.jobs]
    return counts, under_way, summary.hypervolume, stuck, jobs


def _lines(look: Look) -> list[str]:
    return [
        *_progress(look.study, look.summary),
        *_workers(look.summary, look.study),
        *map(_job, look.jobs),
        *(f"stuck: {one.why}" for one in look.summary.stuck),
        *map(_disk, look.rooms),
    ]


def _progress(study: StudyRecord, summary: StudySummary) -> Iterator[str]:
    infeasible = f", {summary.infeasible} of them infeasible" if summary.infeasible else ""
    interrupted = f", {summary.interrupted} interrupted" if summary.interrupted else ""
    yield (
        f"{study.name}: {summary.finished}/{summary.work.target} trials done "
        f"({summary.complete} complete{infeasible}, {summary.failed} failed), "
        f"{summary.running} running{interrupted}"
    )
    if summary.hypervolume is not None and summary.box is not None:
        edges = ", ".join(
            f"{one.label} {output.plain(f'{text.edge(one, worst)} to {text.edge(one, best)}')}"
            for name, (worst, best) in summary.box.edges.items()
            for one in [OBJECTIVES[name]]
        )
        yield f"hypervolume {summary.hypervolume:.4f} of the box of {edges}"
    if summary.work.is_searching:
        yield f"time left: {output.duration(summary.eta_seconds)}"
    if study.front_runs:
        so_far = " so far" if summary.work.is_searching else ""
        yield (
            f"repeats: {len(summary.work.repeats)} to go until each trial on or near the front"
            f"{so_far} has {study.front_runs} runs"
        )
    if summary.seconds.device is not None:
        yield f"training seconds: {summary.seconds.words}"


def _disk(room: Room) -> str:
    if room.bytes is None:
        return f"disk: room unknown in {room.place}: {room.reason}"
    return f"disk: {room.bytes / 1e6:,.1f} MB in {room.place}"


def _workers(summary: StudySummary, study: StudyRecord) -> list[str]:
    """A line for each worker, under a head; the column of jobs where one has any.

    What does not fit in the width of the terminal is said once, cut or left out.
    """
    if not summary.workers:
        return []
    rows = [HEAD, *(_cells(one, study) for one in summary.workers)]
    if not any(one.job for one in summary.workers):
        job = HEAD.index("job")
        rows = [(*row[:job], *row[job + 1 :]) for row in rows]
    return fitted_lines(rows, COLUMNS, width=terminal_width())


def _cells(one: WorkerStatus, study: StudyRecord) -> tuple[str, ...]:
    speed = one.images_per_second
    epoch = "-" if one.epochs is None else f"{one.epoch or 1}/{one.epochs}"
    gone = "" if one.life is Life.ALIVE else f", {one.life}"
    return (
        one.worker,
        one.host,
        _device(one),
        one.job or "-",
        _doing(one, study),
        epoch,
        "-" if speed is None else f"{speed:,.0f}",
        f"{output.duration(max(one.silent_seconds, 0.0))} ago{gone}",
    )


def _device(one: WorkerStatus) -> str:
    if one.device_name is None:
        return one.device
    # The name of a processor says that it is one.
    return one.device_name if one.device == "cpu" else f"{one.device} ({one.device_name})"


def _doing(one: WorkerStatus, study: StudyRecord) -> str:
    if one.trial is not None:
        run = f" run {one.run}" if one.run or study.definition.runs_per_trial > 1 else ""
        return f"{one.doing} trial {one.trial}{run}"
    if one.waits_for is None:
        return one.doing
    return f"{one.doing}{' for' if one.doing == 'waits' else ', in use by'} {one.waits_for}"


def _job(job: JobRecord) -> str:
    """Where a worker stands that an engine was given."""
    how = f"runs on {job.host}" if job.host else "runs"
    if job.state == "waiting":
        how = f"waits: {job.reason}" if job.reason else "waits"
    elif job.state == GIVEN_BACK:
        how = "was given back"
    seen = "" if job.is_watched else f", seen {output.duration(job.seen_seconds_ago)} ago"
    return f"{job.engine} job {job.id} {how}{seen}"


def _json(look: Look) -> dict[str, object]:
    study, summary = look.study, look.summary
    is_repeating = summary.work.repeats and not summary.work.is_searching
    return {
        "study": study.name,
        "budget": summary.budget,
        "complete": summary.complete,
        "failed": summary.failed,
        "running": summary.running,
        "workers": [asdict(one) for one in summary.workers],
        "jobs": [asdict(one) for one in look.jobs],
        "stuck": [asdict(one) for one in summary.stuck],
        "hypervolume": summary.hypervolume,
        # Of repeats nobody knows how many more will follow.
        "eta_seconds": None if is_repeating else summary.eta_seconds,
        "hypervolume_box": None if summary.box is None else summary.box.edges,
        "infeasible": summary.infeasible,
        "reference_device": summary.seconds.device,
        "seconds": {str(basis): summary.seconds.trials[basis] for basis in SecondsBasis},
        "runs_on_front": study.front_runs,
        "repeats_left": len(summary.work.repeats),
        "disk_bytes": look.disk_bytes,
        "interrupted": summary.interrupted,
        "disk": [asdict(one) for one in look.rooms],
    }
