"""The commands: their arguments and where each is done. Nothing heavy is imported here."""

from __future__ import annotations

import argparse
import importlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from fastrcaps_search.definition.data_facts import DATA_VARIABLE
from fastrcaps_search.errors import UsageError
from fastrcaps_search.store.place import (
    DEFAULT_FILES,
    DEFAULT_STORAGE,
    FILES_VARIABLE,
    LEASE_SECONDS,
    PATIENCE_SECONDS,
    STORAGE_VARIABLE,
    Location,
    chosen_location,
)

Add = Callable[[argparse.ArgumentParser], None]
MOST_TRIALS = 1_000_000
MOST_WORKERS = 1_024
LARGEST_SEED = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        name: As typed.
        summary: One sentence.
        example: Arguments of an example.
        add_arguments: Adds its flags.
        module: Module of this package that does it, in a function of the command's name.
    """

    name: str
    summary: str
    example: str
    add_arguments: Add
    module: str

    def function(self, arguments: argparse.Namespace) -> int:
        """Import the module and do the command."""
        module = importlib.import_module(f"fastrcaps_search.cli.{self.module}")
        return int(getattr(module, self.name)(arguments))


def version_line() -> str:
    """Name and version of the package."""
    try:
        return f"fastrcaps-search {metadata.version('fastrcaps-search')}"
    except metadata.PackageNotFoundError:
        return "fastrcaps-search (not installed)"


def location(arguments: argparse.Namespace) -> Location:
    """The database that the command is about."""
    return chosen_location(arguments.storage, getattr(arguments, "files", None))


def data_folder(arguments: argparse.Namespace) -> Path | None:
    """Folder with image data, if one was named.

    Raises:
        UsageError: It is not a folder.
    """
    given = arguments.data_dir or os.environ.get(DATA_VARIABLE)
    if not given:
        return None
    path = Path(given)
    if not path.is_dir():
        came = f"the file {path}" if path.exists() else f"{path}, which is not there"
        raise UsageError(
            f"--data-dir must be a folder that exists, got {came}; make it first to have data "
            "downloaded into it"
        )
    return path.absolute()


def _storage(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--storage",
        metavar="URL",
        help="database: a path, sqlite:///path or postgresql://user:password@host/database "
        f"(default: ${STORAGE_VARIABLE} or {DEFAULT_STORAGE} here)",
    )


def _study(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--study", metavar="S", required=True, help="name of a shipped study, or a study file"
    )


def _data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        help=f"folder with MNIST or Fashion-MNIST (default: ${DATA_VARIABLE} or the user's cache)",
    )


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _stored(parser: argparse.ArgumentParser) -> None:
    _study(parser)
    _storage(parser)
    _json(parser)


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        # Longer texts cannot be in range, and Python refuses to read the longest.
        value = int(text) if text.lstrip("-").isdecimal() and len(text) < 20 else low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f"must be a whole number from {low} to {high}, got {text[:30]!r}"
            )
        return value

    return parse


def _seconds(low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        # Neither signs nor exponents nor infinities: plain seconds.
        value = float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) else low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f"must be seconds from {low:.0f} to {high:.0f}, got {text[:30]!r}"
            )
        return value

    return parse


def _run(parser: argparse.ArgumentParser) -> None:
    _study(parser)
    parser.add_argument(
        "--trials",
        metavar="N",
        type=_whole(1, MOST_TRIALS),
        help="the study's total of trials, those that are done already included",
    )
    _work(parser)
    parser.add_argument(
        "--seed",
        metavar="K",
        type=_whole(0, LARGEST_SEED),
        help="seed of a new study (default: 0)",
    )
    _volume(parser, quiet="print only the front and the report's place")


def _worker(parser: argparse.ArgumentParser) -> None:
    _study(parser)
    _work(parser)
    _volume(parser, quiet="print only how the study stands in the end")


def _work(parser: argparse.ArgumentParser) -> None:
    """Flags of everything that trains."""
    _storage(parser)
    _data(parser)
    parser.add_argument(
        "--files",
        metavar="DIR",
        help="folder of checkpoints and logs, to be shared by all machines that are to go on from "
        f"each other's checkpoints (default: ${FILES_VARIABLE}, or beside an SQLite file, or "
        f"{DEFAULT_FILES} here)",
    )
    parser.add_argument(
        *("--devices", "--device"),
        metavar="D",
        default="auto",
        help="auto (all GPUs, or else the CPU), cpu, cuda, or GPUs as in cuda:0,cuda:2",
    )
    parser.add_argument(
        "--workers",
        metavar="W",
        type=_workers,
        help="worker processes, or auto (the default): those that this study began with here; at "
        "first what is measured to be fastest on a CPU, and one on each GPU",
    )
    parser.add_argument(
        "--workers-per-device",
        metavar="W",
        type=_whole(1, MOST_WORKERS),
        help="worker processes on each GPU, or on the CPU",
    )
    parser.add_argument(
        "--lease-seconds",
        metavar="S",
        type=_seconds(1, 86_400),
        default=LEASE_SECONDS,
        help="a worker of another machine that has been silent for so long has lost its trial "
        f"(default: {LEASE_SECONDS:g})",
    )
    parser.add_argument(
        "--store-patience",
        metavar="S",
        type=_seconds(0, 31_536_000),
        default=PATIENCE_SECONDS,
        help="how long an outage of the database is waited for before the workers stop "
        f"(default: {PATIENCE_SECONDS:g})",
    )


def _volume(parser: argparse.ArgumentParser, *, quiet: str) -> None:
    volume = parser.add_mutually_exclusive_group()
    volume.add_argument("--quiet", action="store_true", help=quiet)
    volume.add_argument("--verbose", action="store_true", help="print every epoch as a line")


def _workers(text: str) -> int | None:
    if text == "auto":
        return None
    try:
        return _whole(1, MOST_WORKERS)(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(
            str(error).replace("must be a", "must be auto or a")
        ) from None


def _report(parser: argparse.ArgumentParser) -> None:
    _study(parser)
    _storage(parser)
    parser.add_argument(
        "--out", metavar="FILE", help="page to write (default: reports/STUDY.html here)"
    )


def _studies(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", nargs="?", help="a study to check and show in full")
    _json(parser)


def _doctor(parser: argparse.ArgumentParser) -> None:
    _storage(parser)
    _data(parser)
    _json(parser)


COMMANDS = (
    Command(
        "run",
        "Create a study or go on with it, train on local workers, end with front and report.",
        "run --study mnist-mini --trials 12",
        _run,
        "run",
    ),
    Command(
        "worker",
        "Join a study that a run has begun, from any machine, until its budget is met.",
        "worker --study mnist --storage postgresql://ann@db.example/studies",
        _worker,
        "run",
    ),
    Command(
        "status",
        "Show the progress of a study.",
        "status --study mnist-mini",
        _stored,
        "show",
    ),
    Command(
        "trials",
        "List every trial of a study, failed ones with their reason.",
        "trials --study mnist-mini --json",
        _stored,
        "show",
    ),
    Command(
        "front",
        "List the trials that no other trial beats in accuracy, time and size at once.",
        "front --study mnist-mini",
        _stored,
        "show",
    ),
    Command(
        "report",
        "Write the HTML page of a study again.",
        "report --study mnist-mini --out mini.html",
        _report,
        "report",
    ),
    Command(
        "studies",
        "List the shipped studies, or check a study file and show it in full.",
        "studies mnist-mini",
        _studies,
        "studies",
    ),
    Command(
        "doctor",
        "Show what this machine has: devices, threads, torch, data, store.",
        "doctor",
        _doctor,
        "doctor",
    ),
)
