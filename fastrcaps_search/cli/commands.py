"""The commands and where each is done. Nothing heavy is imported here."""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fastrcaps_search.cli import flags
from fastrcaps_search.cli.flags import Flag
from fastrcaps_search.data.data_set import DATA_VARIABLE
from fastrcaps_search.definition.release import release
from fastrcaps_search.errors import UsageError
from fastrcaps_search.store.location import Location, chosen_location


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        name: As typed.
        summary: One sentence.
        example: Arguments of an example.
        flags: Its flags.
        module: Module of this package that does it, in a function of the command's name.
    """

    name: str
    summary: str
    example: str
    flags: Sequence[Flag]
    module: str

    def function(self, arguments: argparse.Namespace) -> int:
        """Import the module and do the command."""
        module = importlib.import_module(f"fastrcaps_search.cli.{self.module}")
        return int(getattr(module, self.name)(arguments))


def version_line() -> str:
    """Name and version of the package."""
    return f"fastrcaps-search {release()}"


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


COMMANDS = (
    Command(
        "run",
        "Create a study or go on with it, train on local workers, end with front and report.",
        "run --study mnist-mini --trials 12",
        flags.RUN,
        "run",
    ),
    Command(
        "worker",
        "Join a study that a run has begun, from any machine, until its budget is met.",
        "worker --study mnist --storage postgresql://ann@db.example/studies",
        flags.WORKER,
        "run",
    ),
    Command(
        "status",
        "Show the progress of a study.",
        "status --study mnist-mini",
        flags.STATUS,
        "show",
    ),
    Command(
        "trials",
        "List every trial of a study, those off the front with their reason; set one aside.",
        "trials --study mnist-mini --json",
        flags.TRIALS,
        "show",
    ),
    Command(
        "front",
        "List the trials that no other trial beats in accuracy, time and size at once.",
        "front --study mnist-mini",
        flags.STORED,
        "show",
    ),
    Command(
        "select",
        "Pick the trial of the front that fits the given bounds and preference.",
        "select --study mnist-mini --min-accuracy 90% --prefer time",
        flags.SELECT,
        "show",
    ),
    Command(
        "compare",
        "Say how two trials differ on the same images, and how sure that is.",
        "compare 3 7 --study mnist-mini",
        flags.COMPARE,
        "show",
    ),
    Command(
        "export",
        "Write the trained network of a trial into a folder, ready to be used anywhere.",
        "export --study mnist-mini --prefer knee --out network",
        flags.EXPORT,
        "export",
    ),
    Command(
        "evaluate",
        "Measure an exported network again; confusion, mistakes and reconstructions as a page.",
        "evaluate network",
        flags.EVALUATE,
        "evaluate",
    ),
    Command(
        "report",
        "Write the page of a study again, keep it current, or write images and tables.",
        "report --study mnist-mini --out mini.html",
        flags.REPORT,
        "report",
    ),
    Command(
        "rates",
        "Train briefly while the learning rate grows, and propose lr_min and lr_max.",
        "rates --study mnist-mini",
        flags.RATES,
        "rates",
    ),
    Command(
        "studies",
        "List the shipped studies, or check a study file and show it in full.",
        "studies mnist-mini",
        flags.STUDIES,
        "doctor",
    ),
    Command(
        "doctor",
        "Show what this machine has: devices, threads, torch, data, store.",
        "doctor",
        flags.DOCTOR,
        "doctor",
    ),
)
