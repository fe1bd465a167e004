"""The flags of the commands. Nothing heavy is imported here."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from fastrcaps_search.cli import texts
from fastrcaps_search.cli.texts import MOST_TRIALS, whole
from fastrcaps_search.data.data_set import DATA_VARIABLE
from fastrcaps_search.data.shipped import DATA_SETS
from fastrcaps_search.definition.choices import EvaluateOn
from fastrcaps_search.definition.keys import LARGEST_RUNS, LARGEST_SEED
from fastrcaps_search.definition.objective import OBJECTIVES
from fastrcaps_search.front.criteria import preferences
from fastrcaps_search.report.formats import Format
from fastrcaps_search.store.location import (
    DEFAULT_FILES,
    DEFAULT_STORAGE,
    FILES_VARIABLE,
    LEASE_LIMITS,
    LEASE_SECONDS,
    PATIENCE_LIMITS,
    PATIENCE_SECONDS,
    STORAGE_VARIABLE,
)
from fastrcaps_search.training.rate_curve import FEWEST_STEPS

Flag = Callable[[Any], object]
"""Adds itself to a parser or a group of one."""


def _flag(*names: str, **settings: Any) -> Flag:  # noqa: ANN401  # add_argument's own
    return lambda parser: parser.add_argument(*names, **settings)


def _one_of(*flags: Flag) -> Flag:
    """Flags that exclude each other."""

    def add(parser: argparse.ArgumentParser) -> None:
        group = parser.add_mutually_exclusive_group()
        for flag in flags:
            flag(group)

    return add


def _files(what: str) -> Flag:
    default = f"${FILES_VARIABLE}, or beside an SQLite file, or {DEFAULT_FILES} here"
    return _flag("--files", metavar="DIR", help=f"{what} (default: {default})")


def _page(name: str) -> Flag:
    words = f"page to write, .html (default: reports/{name}.html here)"
    return _flag("--out", metavar="FILE", type=texts.html_file, help=words)


def _seed(words: str, **settings: Any) -> Flag:  # noqa: ANN401  # add_argument's own
    whole_number = whole(0, LARGEST_SEED)
    return _flag("--seed", metavar="K", type=whole_number, help=words, **settings)


def _volume(quiet: str) -> Flag:
    return _one_of(
        _flag("--quiet", action="store_true", help=quiet),
        _flag("--verbose", action="store_true", help="print every epoch as a line"),
    )


_STUDY = _flag(
    "--study", metavar="S", required=True, help="name of a shipped study, or a study file"
)
_STORAGE = _flag(
    "--storage",
    metavar="URL",
    help="database: a path, sqlite:///path or postgresql://user:password@host/database "
    f"(default: ${STORAGE_VARIABLE} or {DEFAULT_STORAGE} here)",
)
_DATA = _flag(
    "--data-dir",
    metavar="DIR",
    help=f"folder with MNIST or Fashion-MNIST (default: ${DATA_VARIABLE} or the user's cache)",
)
_RUN_FILES = _files("folder of checkpoints and logs, as it was named for `run`")
_JSON = _flag("--json", action="store_true", help="print JSON")
_WORK = (
    _STORAGE,
    _DATA,
    _files(
        "folder of checkpoints and logs, to be shared by all machines that are to go on from "
        "each other's checkpoints"
    ),
    _flag(
        *("--devices", "--device"),
        metavar="D",
        default="auto",
        help="auto (all GPUs, or else the CPU), cpu, cuda, or GPUs as in cuda:0,cuda:2",
    ),
    _flag(
        "--workers",
        metavar="W",
        type=texts.workers,
        help="worker processes, or auto (the default): those that this study began with here; at "
        "first what is measured to be fastest on a CPU, and one on each GPU",
    ),
    _flag(
        "--workers-per-device",
        metavar="W",
        type=whole(1, texts.MOST_WORKERS),
        help="worker processes on each GPU, or on the CPU",
    ),
    _flag(
        "--launcher",
        metavar="L",
        default="local",
        help="what starts the workers: local (the default), or the name of a plug-in's launcher",
    ),
    _flag(
        "--lease-seconds",
        metavar="S",
        type=texts.seconds(*LEASE_LIMITS),
        default=LEASE_SECONDS,
        help="a worker of another machine that has been silent for so long has lost its trial "
        f"(default: {LEASE_SECONDS:g})",
    ),
    _flag(
        "--store-patience",
        metavar="S",
        type=texts.seconds(*PATIENCE_LIMITS),
        default=PATIENCE_SECONDS,
        help="how long an outage of the database is waited for before the workers stop "
        f"(default: {PATIENCE_SECONDS:g})",
    ),
    _flag(
        "--max-failures",
        metavar="K",
        type=whole(1, MOST_TRIALS),
        default=3,
        help="trials that fail in a row before the workers stop, those that diverge not counted "
        "(default: 3)",
    ),
)
"""Of everything that trains."""


def _criteria(parser: argparse.ArgumentParser) -> None:
    """Bounds and preference. Plug-ins bring objectives: not before a command needs them."""
    for objective in OBJECTIVES:
        words = f"{'least' if objective.maximise else 'most'} {objective.label}"
        parser.add_argument(
            f"--{objective.flag}",
            metavar=objective.letter.upper(),
            type=texts.bound_of(objective),
            help=f"{words}: {objective.scale.typed}".replace("%", "%%"),
        )
    best = ", ".join(objective.best for objective in OBJECTIVES)
    parser.add_argument(
        "--prefer",
        metavar="X",
        type=texts.preference,
        help=f"{preferences()}: of the trials that fit, the one of {best}, or closest to the best "
        "of all at once, with weights where they are given (default: accuracy)",
    )


STORED = (_STUDY, _STORAGE, _JSON)
STATUS = (*STORED, _RUN_FILES)
TRIALS = (
    *STORED,
    _one_of(
        _flag(
            "--exclude",
            metavar="K",
            type=whole(0, MOST_TRIALS),
            help="set trial K aside first: off the front and out of choices, until it is "
            "included; says which trials are then on the front without a network",
        ),
        _flag(
            "--include", metavar="K", type=whole(0, MOST_TRIALS), help="take trial K back first"
        ),
    ),
    _flag("--why", metavar="TEXT", help="why it is excluded, in one line"),
)
SELECT = (_STUDY, _STORAGE, _criteria, _JSON)
COMPARE = (
    _flag(
        "trials",
        metavar="K",
        nargs=2,
        type=whole(0, MOST_TRIALS),
        help="numbers of two complete trials",
    ),
    *STORED,
)
RUN = (
    _STUDY,
    _flag(
        "--trials",
        metavar="N",
        type=whole(1, MOST_TRIALS),
        help="the study's total of trials, those that are done already included (default: as "
        "before; a new search must be told)",
    ),
    _flag(
        "--runs-on-front",
        metavar="R",
        type=whole(2, LARGEST_RUNS),
        help="train the trials on or near the front again with other seeds, until each has R runs",
    ),
    *_WORK,
    _seed("seed of a new study (default: 0)"),
    _volume("print only the front and the report's place"),
)
WORKER = (_STUDY, *_WORK, _volume("print only how the study stands in the end"))
RATES = (
    *(_STUDY, _STORAGE, _DATA),
    _flag(
        "--device",
        metavar="D",
        default="auto",
        help="auto (the first GPU, or else the CPU), cpu, cuda, or a GPU as in cuda:1",
    ),
    _seed("seed of weights, order and shifts (default: 0)", default=0),
    _flag(
        "--steps",
        metavar="N",
        type=whole(FEWEST_STEPS, 100_000),
        help="steps from the lowest to the highest rate (default: 300, or as many as fit into 90 "
        "seconds)",
    ),
    _page("STUDY-rates"),
    _JSON,
)
EXPORT = (
    _STUDY,
    _flag(
        "--trial",
        metavar="K",
        type=whole(0, MOST_TRIALS),
        help="number of the trial (default: the one that `select` picks with the flags below)",
    ),
    _criteria,
    _flag(
        "--run",
        metavar="J",
        type=whole(0, MOST_TRIALS),
        help="index of its run, from 0 (default: the one of highest accuracy)",
    ),
    *(_STORAGE, _RUN_FILES),
    _flag(
        "--onnx",
        action="store_true",
        help="write network.onnx too; needs `pip install 'fastrcaps-search[onnx]'`",
    ),
    _flag("--out", metavar="DIR", required=True, help="folder to write: a new or an empty one"),
)
EVALUATE = (
    _flag("folder", metavar="DIR", help="folder that `export` has written"),
    _flag(
        "--data-set",
        metavar="D",
        type=texts.word(DATA_SETS),
        help="mnist, fashion-mnist, mnist-mini or one of a plug-in (default: the one that the "
        "network was trained on)",
    ),
    _DATA,
    _flag(
        "--split",
        metavar="S",
        type=texts.word(EvaluateOn),
        help=f"{' or '.join(EvaluateOn)} (default: the one whose accuracy was exported; test for "
        "another data set)",
    ),
    _page("STUDY-trial-K-run-J-SPLIT"),
    _JSON,
)
REPORT = (
    *(_STUDY, _STORAGE),
    _flag("--out", metavar="FILE", help="file to write (default: reports/STUDY.FORMAT here)"),
    _flag(
        "--format",
        metavar="F[,F...]",
        type=texts.formats,
        help=f"{', '.join(Format)}, or several with commas (default: that of --out, else html); "
        "images need Kaleido and Chromium",
    ),
    _flag(
        "--watch",
        action="store_true",
        help="write again whenever the study has changed, until its budget is met",
    ),
)
STUDIES = (_flag("study", nargs="?", help="a study to check and show in full"), _JSON)
DOCTOR = (_STORAGE, _DATA, _JSON)
