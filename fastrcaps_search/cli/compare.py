"""``compare``: two trials on the same images."""

from __future__ import annotations

import argparse

from fastrcaps_search.analysis.comparing import comparison_row
from fastrcaps_search.cli import output
from fastrcaps_search.cli.show import opened

NEAR_THE_EDGE = "; the interval is approximate, p is exact"
"""Said where only one of them leaves out that both are equally good."""


def compare(arguments: argparse.Namespace) -> int:
    """Print how the networks of two trials differ, and how sure that is."""
    with opened(arguments) as (store, study):
        row = comparison_row(store, study, *arguments.trials)
    if arguments.json:
        output.print_json(row)
        return 0
    images = f"the {row['images']:,} images of the {study.definition.evaluate_on.images}"
    head = ("trial", "run", "accuracy", "only this one is right")
    output.print_table(
        head,
        [
            (
                str(one["trial"]),
                str(one["run"]),
                output.fraction(one["accuracy"]),
                f"{one['only']:,} images",
            )
            for one in row["networks"]
        ],
    )
    difference, low, high = (100 * row[key] for key in ("difference", "low", "high"))
    agree = (low > 0 or high < 0) == (row["p_value"] < 0.05)
    print(
        f"difference {difference:+.2f} points, 95 % interval {low:+.2f} to {high:+.2f}; "
        f"exact McNemar test: p = {row['p_value']:.2g}"
        f"{'' if agree else NEAR_THE_EDGE}"
    )
    print(
        f"On {images}; of these two networks, each its trial's run of highest accuracy, not of "
        "their configurations: other seeds give other networks."
    )
    return 0
