"""The flags that several commands share: what trains, what is borne, which trial is wanted."""

from __future__ import annotations

import argparse

from fastrcaps_search.cli import texts
from fastrcaps_search.cli.texts import whole
from fastrcaps_search.front.criteria import BOUNDS, PREFERENCES
from fastrcaps_search.store.location import (
    LEASE_LIMITS,
    LEASE_SECONDS,
    PATIENCE_LIMITS,
    PATIENCE_SECONDS,
)

HELP = {
    "min_accuracy": ("A", "least accuracy: a fraction as in 0.985, or a percentage as in 98.5%%"),
    "max_seconds": ("T", "most training seconds"),
    "max_parameters": ("P", "most learned parameters"),
}
"""What stands for each bound, and what it is."""


def workers(parser: argparse.ArgumentParser) -> None:
    """Flags that say what trains."""
    parser.add_argument(
        *("--devices", "--device"),
        metavar="D",
        default="auto",
        help="auto (all GPUs, or else the CPU), cpu, cuda, or GPUs as in cuda:0,cuda:2",
    )
    parser.add_argument(
        "--workers",
        metavar="W",
        type=texts.workers,
        help="worker processes, or auto (the default): those that this study began with here; at "
        "first what is measured to be fastest on a CPU, and one on each GPU",
    )
    parser.add_argument(
        "--workers-per-device",
        metavar="W",
        type=whole(1, texts.MOST_WORKERS),
        help="worker processes on each GPU, or on the CPU",
    )
    parser.add_argument(
        "--launcher",
        metavar="L",
        default="local",
        help="what starts the workers: local (the default), or the name of a plug-in's launcher",
    )


def patience(parser: argparse.ArgumentParser) -> None:
    """Flags that say what is borne, and for how long."""
    parser.add_argument(
        "--lease-seconds",
        metavar="S",
        type=texts.seconds(*LEASE_LIMITS),
        default=LEASE_SECONDS,
        help="a worker of another machine that has been silent for so long has lost its trial "
        f"(default: {LEASE_SECONDS:g})",
    )
    parser.add_argument(
        "--store-patience",
        metavar="S",
        type=texts.seconds(*PATIENCE_LIMITS),
        default=PATIENCE_SECONDS,
        help="how long an outage of the database is waited for before the workers stop "
        f"(default: {PATIENCE_SECONDS:g})",
    )
    parser.add_argument(
        "--max-failures",
        metavar="K",
        type=whole(1, texts.MOST_TRIALS),
        default=3,
        help="trials that fail in a row before the workers stop, those that diverge not counted "
        "(default: 3)",
    )


def criteria(parser: argparse.ArgumentParser) -> None:
    """Flags of the bounds and of the preference."""
    for bound in BOUNDS:
        metavar, words = HELP[bound.name]
        parser.add_argument(
            f"--{bound.flag}", metavar=metavar, type=texts.bound_of(bound), help=words
        )
    parser.add_argument(
        "--prefer",
        metavar="X",
        type=texts.preference,
        help=f"{PREFERENCES}: of the trials that fit, the one of highest accuracy (the default), "
        "fewest training seconds, fewest parameters, or closest to the best of all three at once, "
        "with weights for accuracy, time and size where they are given",
    )
