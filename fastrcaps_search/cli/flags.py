"""How flags are declared, and those that several commands have. Nothing heavy is imported here."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from fastrcaps_search.cli import texts
from fastrcaps_search.cli.texts import MOST_TRIALS, whole
from fastrcaps_search.data.data_set import DATA_VARIABLE
from fastrcaps_search.definition.keys import LARGEST_SEED
from fastrcaps_search.definition.objective import OBJECTIVES
from fastrcaps_search.front.criteria import preferences
from fastrcaps_search.report.formats import FOLDER, FOLDER_VARIABLE
from fastrcaps_search.store import location

Flag = Callable[[Any], object]
"""Adds itself to a parser or a group of one."""


def flag(usage: str, words: str, read: Callable[[str], object] = str, **settings: Any) -> Flag:  # noqa: ANN401  # add_argument's own
    """A flag with a value, or an argument without a flag.

    Args:
        usage: Its names and, last, what stands for the value, as help shows them.
        words: What it does.
        read: The value of a text.
        settings: More for ``add_argument``.
    """
    *names, value = usage.split()
    settings |= {"metavar": value, "type": read, "help": words}
    return lambda parser: parser.add_argument(*names, **settings)


def switch(name: str, words: str) -> Flag:
    """A flag that is there or not."""
    return lambda parser: parser.add_argument(name, action="store_true", help=words)


def one_of(*flags: Flag) -> Flag:
    """Flags that exclude each other."""

    def add(parser: argparse.ArgumentParser) -> None:
        group = parser.add_mutually_exclusive_group()
        for one in flags:
            one(group)

    return add


def files(what: str) -> Flag:
    """Where checkpoints and logs are."""
    beside = f"beside an SQLite file, or {location.DEFAULT_FILES} here"
    default = f"(default: ${location.FILES_VARIABLE}, or {beside})"
    return flag("--files DIR_OR_URL", f"{what} {default}")


def page(name: str) -> Flag:
    """Where a page is written, which has that name if it is left out."""
    words = f"page to write, .html (default: {name}.html in {REPORTS})"
    return flag("--out FILE", words, texts.html_file)


def seed(words: str, **settings: Any) -> Flag:  # noqa: ANN401  # add_argument's own
    """A seed."""
    return flag("--seed K", words, whole(0, LARGEST_SEED), **settings)


def seconds(name: str, words: str, limits: tuple[float, float], usual: float) -> Flag:
    """A length of time within limits."""
    told = f"{words} (default: {usual:g})"
    return flag(f"{name} S", told, texts.seconds(*limits), default=usual)


def volume(quiet: str) -> Flag:
    """How much is printed."""
    verbose = switch("--verbose", "print every epoch as a line")
    return one_of(switch("--quiet", quiet), verbose)


def criteria(parser: argparse.ArgumentParser) -> None:
    """Bounds and preference. Plug-ins bring objectives: not before a command needs them."""
    for one in OBJECTIVES:
        words = f"{'least' if one.maximise else 'most'} {one.label}: {one.scale.typed}"
        usage = f"--{one.flag} {one.letter.upper()}"
        flag(usage, words.replace("%", "%%"), texts.bound_of(one))(parser)
    best = ", ".join(objective.best for objective in OBJECTIVES)
    words = (
        f"{preferences()}: of the trials that fit, the one of {best}, or closest to the best of "
        "all at once, with weights where they are given (default: accuracy)"
    )
    flag("--prefer X", words, texts.preference)(parser)


REPORTS = f"${FOLDER_VARIABLE}, or {FOLDER} here"
STUDY = flag("--study S", "name of a shipped study, or a study file", required=True)
STORAGE = flag(
    "--storage URL",
    "database: a path, sqlite:///path or postgresql://user:password@host/database (default: "
    f"${location.STORAGE_VARIABLE} or {location.DEFAULT_STORAGE} here)",
)
DATA = flag(
    "--data-dir DIR",
    f"folder with MNIST or Fashion-MNIST (default: ${DATA_VARIABLE} or the user's cache)",
)
RUN_FILES = files("folder of checkpoints and logs, or URL, as it was named for `run`")
JSON = switch("--json", "print JSON")
STORED = (STUDY, STORAGE, JSON)
WORK = (
    STORAGE,
    DATA,
    files(
        "folder of checkpoints and logs, to be shared by all machines that are to go on from "
        "each other's checkpoints, or a URL such as s3://bucket/prefix, which needs `pip install "
        "'fastrcaps-search[remote]'`; logs then stay in the default folder"
    ),
    flag(
        "--devices --device D",
        "auto (all GPUs, or else the CPU), cpu, cuda, or GPUs as in cuda:0,cuda:2",
        default="auto",
    ),
    flag(
        "--workers W",
        "worker processes, or auto (the default): those that this study began with here; at first "
        "what is measured to be fastest on a CPU, and one on each GPU; jobs, where an engine "
        "places them (default: 1; with `run --launcher slurm` or ray, 0 gives back those of a "
        "stored study, and does nothing else)",
        texts.workers,
    ),
    flag(
        "--workers-per-device W",
        "worker processes on each GPU, or on the CPU",
        whole(1, texts.MOST_WORKERS),
    ),
    flag(
        "--threads T",
        "threads of each worker (default: as the study began with here, or all its cores divided)",
        whole(1, texts.MOST_WORKERS),
    ),
    flag(
        "--launcher L",
        "what starts the workers: local (the default), or the name of a plug-in's launcher; for "
        "`run` also slurm or ray, which place each as a job",
        default="local",
    ),
    seconds(
        "--lease-seconds",
        "a worker of another machine that has been silent for so long has lost its trial",
        location.LEASE_LIMITS,
        location.LEASE_SECONDS,
    ),
    seconds(
        "--store-patience",
        "how long an outage of the database is waited for before the workers stop",
        location.PATIENCE_LIMITS,
        location.PATIENCE_SECONDS,
    ),
    flag(
        "--max-failures K",
        "trials that fail in a row before the workers stop, those that diverge not counted "
        "(default: 3)",
        whole(1, MOST_TRIALS),
        default=3,
    ),
)
"""Of everything that trains."""
