"""The commands and where each is done. Nothing heavy is imported here."""

from __future__ import annotations

import argparse
import importlib
import os
from pathlib import Path

from fastrcaps_search.cli import flags, texts
from fastrcaps_search.cli.flags import Flag, flag
from fastrcaps_search.cli.texts import MOST_TRIALS, whole
from fastrcaps_search.data.data_set import DATA_VARIABLE
from fastrcaps_search.data.shipped import DATA_SETS
from fastrcaps_search.definition.choices import EvaluateOn
from fastrcaps_search.definition.keys import LARGEST_RUNS
from fastrcaps_search.errors import UsageError, importing
from fastrcaps_search.report.formats import BROWSER_SECONDS, Format
from fastrcaps_search.store.location import Location, chosen_location
from fastrcaps_search.training.rate_curve import FEWEST_STEPS
from fastrcaps_search.typed import path_of

NUMBER = whole(0, MOST_TRIALS)
"""Reads the number of a trial, or of a run within it."""
WATCH_SECONDS = 2.0
WATCH_LIMITS = (1.0, 3_600.0)
"""Between two looks at a study that is watched."""


class Command:
    """One command.

    Args:
        name: As typed.
        summary: One sentence.
        example: Arguments of an example.
        flags: Its flags.
        module: Module of this package that does it, in a function of the command's name; named
            as the command if left out.
    """

    def __init__(
        self, name: str, summary: str, example: str, *flags: Flag, module: str = ""
    ) -> None:
        self.name, self.summary, self.example, self.flags = name, summary, example, flags
        self._module = f"fastrcaps_search.cli.{module or name}"

    def function(self, arguments: argparse.Namespace) -> int:
        """Import the module and do the command; the exit code, 0 where it returns none."""
        with importing():
            module = importlib.import_module(self._module)
        return int(getattr(module, self.name)(arguments) or 0)


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
    path = path_of(given, "--data-dir")
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
        "--study mnist-mini --trials 12",
        flags.STUDY,
        flag(
            "--trials N",
            "the study's total of trials, those that are done already included; it can only grow "
            "(default: as before; a new search must be told)",
            whole(1, MOST_TRIALS),
        ),
        flag(
            "--runs-on-front R",
            "train the trials on or near the front again with other seeds, until each has R runs",
            whole(2, LARGEST_RUNS),
        ),
        flag(
            "--reference-device NAME",
            "device in whose seconds the study counts, one that is here or was calibrated for it, "
            "as `doctor` names it, before its first trial (default: the first one that trains for "
            "it)",
        ),
        *flags.WORK,
        flag(
            "--launcher-option NAME=VALUE",
            "tell the engine that places workers something; repeatable; with an unknown name it "
            "says which it knows",
            texts.launcher_option,
            action="append",
            default=[],
        ),
        flags.switch("--detach", "return once an engine has the workers; `status` shows them"),
        flags.seed("seed of a new study (default: 0)"),
        flag("--report-dir DIR", f"folder of the page (default: {flags.REPORTS})", path_of),
        flags.volume("print only the front and the report's place"),
    ),
    Command(
        "worker",
        "Join a study that a run has begun, from any machine, until its budget is met.",
        "--study mnist --storage postgresql://ann@db.example/studies",
        flags.STUDY,
        *flags.WORK,
        flag(
            "--idle-limit S",
            "end well after so long with nothing to claim, though others still work (default: "
            "wait for them)",
            texts.seconds(1.0, 31_536_000.0),
        ),
        flags.volume("print only how the study stands in the end"),
        module="run",
    ),
    Command(
        "status",
        "Show the progress of a study, its workers, and what is stuck.",
        "--study mnist-mini --watch",
        *flags.STORED,
        flags.RUN_FILES,
        flag(
            "--watch S",
            f"show it again every S seconds (default: {WATCH_SECONDS:g}) until the study is done; "
            "where lines cannot be written over, whenever something has changed",
            texts.seconds(*WATCH_LIMITS),
            nargs="?",
            const=WATCH_SECONDS,
        ),
    ),
    Command(
        "trials",
        "List every trial of a study, those off the front with their reason; set one aside.",
        "--study mnist-mini --json",
        *flags.STORED,
        flags.one_of(
            flag(
                "--exclude K",
                "set trial K aside first: off the front and out of choices, until it is included; "
                "says which trials are then on the front without a network",
                NUMBER,
            ),
            flag("--include K", "take trial K back first", NUMBER),
        ),
        flag("--why TEXT", "why it is excluded, in one line"),
        module="show",
    ),
    Command(
        "front",
        "List the trials that no other trial beats in accuracy, time and size at once.",
        "--study mnist-mini",
        *flags.STORED,
        module="show",
    ),
    Command(
        "select",
        "Pick the trial of the front that fits the given bounds and preference.",
        "--study mnist-mini --min-accuracy 90% --prefer time",
        *(flags.STUDY, flags.STORAGE, flags.criteria, flags.JSON),
        module="show",
    ),
    Command(
        "compare",
        "Say how two trials differ on the same images, and how sure that is.",
        "3 7 --study mnist-mini",
        flag("trials K", "numbers of two complete trials", NUMBER, nargs=2),
        *flags.STORED,
        module="show",
    ),
    Command(
        "export",
        "Write the trained network of a trial into a folder, ready to be used anywhere.",
        "--study mnist-mini --prefer knee --out network",
        flags.STUDY,
        flag(
            "--trial K",
            "number of the trial (default: the one that `select` picks with the flags below)",
            NUMBER,
        ),
        flags.criteria,
        flag(
            "--run J",
            "index of its run, from 0 (default: the one of highest accuracy)",
            NUMBER,
        ),
        flags.STORAGE,
        flags.RUN_FILES,
        flags.switch(
            "--onnx", "write network.onnx too; needs `pip install 'fastrcaps-search[onnx]'`"
        ),
        flag(
            "--opset N",
            "the same with a higher opset of ONNX than 18, which onnxruntime reads from 1.14 on",
            NUMBER,
        ),
        flag("--out DIR", "folder to write: a new or an empty one", path_of, required=True),
    ),
    Command(
        "evaluate",
        "Measure an exported network again; confusion, mistakes and reconstructions as a page.",
        "network",
        flag("folder DIR", "folder that `export` has written"),
        flag(
            "--data-set D",
            "mnist, fashion-mnist, mnist-mini or one of a plug-in (default: the one that the "
            "network was trained on)",
            texts.word(DATA_SETS),
        ),
        flags.DATA,
        flag(
            "--split S",
            f"{' or '.join(EvaluateOn)} (default: the one whose accuracy was exported; test for "
            "another data set)",
            texts.word(EvaluateOn),
        ),
        flags.page("STUDY-trial-K-run-J-SPLIT"),
        flags.JSON,
    ),
    Command(
        "report",
        "Write the page of a study again, keep it current, or write images and tables.",
        "--study mnist-mini --out mini.html",
        flags.STUDY,
        flags.STORAGE,
        flag("--out FILE", f"file to write (default: STUDY.FORMAT in {flags.REPORTS})", path_of),
        flag(
            "--format F[,F...]",
            f"{', '.join(Format)}, or several with commas (default: that of --out, else html); "
            "images need Kaleido and Chromium",
            texts.formats,
        ),
        flags.seconds(
            "--browser-seconds",
            "how long the browser may take for an image",
            (1.0, 3600.0),
            BROWSER_SECONDS,
        ),
        flags.switch(
            "--watch", "write again whenever the study has changed, until its budget is met"
        ),
    ),
    Command(
        "rates",
        "Train briefly while the learning rate grows, and propose lr_min and lr_max.",
        "--study mnist-mini",
        *(flags.STUDY, flags.STORAGE, flags.DATA),
        flag(
            "--device D",
            "auto (the first GPU, or else the CPU), cpu, cuda, or a GPU as in cuda:1",
            default="auto",
        ),
        flags.seed("seed of weights, order and shifts (default: 0)", default=0),
        flag(
            "--steps N",
            "steps from the lowest to the highest rate (default: 300, or as many as fit into 90 "
            "seconds)",
            whole(FEWEST_STEPS, 100_000),
        ),
        flags.page("STUDY-rates"),
        flags.JSON,
    ),
    Command(
        "studies",
        "List the shipped studies, or check a study file and show it in full.",
        "mnist-mini",
        flag("study study", "a study to check and show in full", nargs="?"),
        flags.JSON,
        module="doctor",
    ),
    Command(
        "doctor",
        "Show what this machine has: devices, threads, torch, data, store.",
        "",
        *(flags.STORAGE, flags.RUN_FILES, flags.DATA, flags.JSON),
    ),
)
