"""The flags of the commands. Nothing heavy is imported here."""

from __future__ import annotations

import argparse

from fastrcaps_search.cli import shared_flags, texts
from fastrcaps_search.cli.shared_flags import criteria
from fastrcaps_search.cli.texts import whole
from fastrcaps_search.data.data_set import DATA_VARIABLE
from fastrcaps_search.data.shipped import DATA_SETS
from fastrcaps_search.definition.choices import EvaluateOn
from fastrcaps_search.definition.keys import LARGEST_RUNS, LARGEST_SEED
from fastrcaps_search.report.formats import Format
from fastrcaps_search.store.location import (
    DEFAULT_FILES,
    DEFAULT_STORAGE,
    FILES_VARIABLE,
    STORAGE_VARIABLE,
)
from fastrcaps_search.training.rate_curve import FEWEST_STEPS


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


def _files(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--files",
        metavar="DIR",
        help=f"{what} (default: ${FILES_VARIABLE}, or beside an SQLite file, or {DEFAULT_FILES} "
        "here)",
    )


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def stored(parser: argparse.ArgumentParser) -> None:
    """Flags of the commands that show what is stored."""
    _study(parser)
    _storage(parser)
    _json(parser)


def trials(parser: argparse.ArgumentParser) -> None:
    """Flags of ``trials``."""
    stored(parser)
    aside = parser.add_mutually_exclusive_group()
    aside.add_argument(
        "--exclude",
        metavar="K",
        type=whole(0, texts.MOST_TRIALS),
        help="set trial K aside first: off the front and out of choices, until it is included; "
        "says which trials are then on the front without a network",
    )
    aside.add_argument(
        "--include", metavar="K", type=whole(0, texts.MOST_TRIALS), help="take trial K back first"
    )
    parser.add_argument("--why", metavar="TEXT", help="why it is excluded, in one line")


def run(parser: argparse.ArgumentParser) -> None:
    """Flags of ``run``."""
    _study(parser)
    parser.add_argument(
        "--trials",
        metavar="N",
        type=whole(1, texts.MOST_TRIALS),
        help="the study's total of trials, those that are done already included (default: as "
        "before; a new search must be told)",
    )
    parser.add_argument(
        "--runs-on-front",
        metavar="R",
        type=whole(2, LARGEST_RUNS),
        help="train the trials on or near the front again with other seeds, until each has R runs",
    )
    _work(parser)
    parser.add_argument(
        "--seed",
        metavar="K",
        type=whole(0, LARGEST_SEED),
        help="seed of a new study (default: 0)",
    )
    _volume(parser, quiet="print only the front and the report's place")


def worker(parser: argparse.ArgumentParser) -> None:
    """Flags of ``worker``."""
    _study(parser)
    _work(parser)
    _volume(parser, quiet="print only how the study stands in the end")


def _work(parser: argparse.ArgumentParser) -> None:
    """Flags of everything that trains."""
    _storage(parser)
    _data(parser)
    _files(
        parser,
        "folder of checkpoints and logs, to be shared by all machines that are to go on from "
        "each other's checkpoints",
    )
    shared_flags.workers(parser)
    shared_flags.patience(parser)


def rates(parser: argparse.ArgumentParser) -> None:
    """Flags of ``rates``."""
    _study(parser)
    _storage(parser)
    _data(parser)
    parser.add_argument(
        "--device",
        metavar="D",
        default="auto",
        help="auto (the first GPU, or else the CPU), cpu, cuda, or a GPU as in cuda:1",
    )
    parser.add_argument(
        "--seed",
        metavar="K",
        type=whole(0, LARGEST_SEED),
        default=0,
        help="seed of weights, order and shifts (default: 0)",
    )
    parser.add_argument(
        "--steps",
        metavar="N",
        type=whole(FEWEST_STEPS, 100_000),
        help="steps from the lowest to the highest rate (default: 300, or as many as fit into 90 "
        "seconds)",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="page to write, .html (default: reports/STUDY-rates.html here)",
    )
    _json(parser)


def _volume(parser: argparse.ArgumentParser, *, quiet: str) -> None:
    volume = parser.add_mutually_exclusive_group()
    volume.add_argument("--quiet", action="store_true", help=quiet)
    volume.add_argument("--verbose", action="store_true", help="print every epoch as a line")


def select(parser: argparse.ArgumentParser) -> None:
    """Flags of ``select``."""
    _study(parser)
    _storage(parser)
    criteria(parser)
    _json(parser)


def compare(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``compare``."""
    parser.add_argument(
        "trials",
        metavar="K",
        nargs=2,
        type=whole(0, texts.MOST_TRIALS),
        help="numbers of two complete trials",
    )
    stored(parser)


def status(parser: argparse.ArgumentParser) -> None:
    """Flags of ``status``."""
    stored(parser)
    _files(parser, "folder of checkpoints and logs, as it was named for `run`")


def export(parser: argparse.ArgumentParser) -> None:
    """Flags of ``export``."""
    _study(parser)
    parser.add_argument(
        "--trial",
        metavar="K",
        type=whole(0, texts.MOST_TRIALS),
        help="number of the trial (default: the one that `select` picks with the flags below)",
    )
    criteria(parser)
    parser.add_argument(
        "--run",
        metavar="J",
        type=whole(0, texts.MOST_TRIALS),
        help="index of its run, from 0 (default: the one of highest accuracy)",
    )
    _storage(parser)
    _files(parser, "folder of checkpoints and logs, as it was named for `run`")
    parser.add_argument(
        "--onnx",
        action="store_true",
        help="write network.onnx too; needs `pip install 'fastrcaps-search[onnx]'`",
    )
    parser.add_argument(
        "--out", metavar="DIR", required=True, help="folder to write: a new or an empty one"
    )


def evaluate(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``evaluate``."""
    parser.add_argument("folder", metavar="DIR", help="folder that `export` has written")
    parser.add_argument(
        "--data-set",
        metavar="D",
        type=texts.word(DATA_SETS),
        help="mnist, fashion-mnist, mnist-mini or one of a plug-in (default: the one that the "
        "network was trained on)",
    )
    _data(parser)
    parser.add_argument(
        "--split",
        metavar="S",
        type=texts.word(EvaluateOn),
        help=f"{' or '.join(EvaluateOn)} (default: the one whose accuracy was exported; test for "
        "another data set)",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="page to write, .html (default: reports/STUDY-trial-K-run-J-SPLIT.html here)",
    )
    _json(parser)


def report(parser: argparse.ArgumentParser) -> None:
    """Flags of ``report``."""
    _study(parser)
    _storage(parser)
    parser.add_argument(
        "--out", metavar="FILE", help="file to write (default: reports/STUDY.FORMAT here)"
    )
    parser.add_argument(
        "--format",
        metavar="F[,F...]",
        type=texts.formats,
        help=f"{', '.join(Format)}, or several with commas (default: that of --out, else html); "
        "images need Kaleido and Chromium",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="write again whenever the study has changed, until its budget is met",
    )


def studies(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``studies``."""
    parser.add_argument("study", nargs="?", help="a study to check and show in full")
    _json(parser)


def doctor(parser: argparse.ArgumentParser) -> None:
    """Flags of ``doctor``."""
    _storage(parser)
    _data(parser)
    _json(parser)
