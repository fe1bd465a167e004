"""``rates``: a learning-rate range test, and the rates that follow from it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from fastrcaps_search.cli import commands, output
from fastrcaps_search.cli.report import page_folder
from fastrcaps_search.errors import importing
from fastrcaps_search.report.rates import rates_page
from fastrcaps_search.report.write import write_file
from fastrcaps_search.search.options import asked_study
from fastrcaps_search.training.rate_curve import SAFETY, RateTest
from fastrcaps_search.training.resources import granted_cores, torch_environment


def rates(arguments: argparse.Namespace) -> None:
    """Make the test, print the proposal and write the page."""
    definition = asked_study(arguments.study, commands.location(arguments))
    folder = commands.data_folder(arguments)
    # Torch's threads read it when they are first imported: they train as those of a worker do.
    os.environ.update(torch_environment(os.environ, threads=granted_cores().amount))
    with importing():
        from fastrcaps_search.training.rate_range import find_rates

    test = find_rates(
        definition,
        folder=folder,
        device=arguments.device,
        seed=arguments.seed,
        steps=arguments.steps,
    )
    page = arguments.out or page_folder() / f"{test.study}-rates.html"
    # Before the page, which may not be writable.
    if arguments.json:
        output.print_json(_json(test, page))
    else:
        _tell(test)
    write_file(page, rates_page(test))
    if not arguments.json:
        print(f"\npage: {page}")


def _tell(test: RateTest) -> None:
    curve = test.curve
    print(f"{test.study}: {test.trained}; batch {test.batch_size}, seed {test.seed}")
    print(
        f"{len(curve.rates)} of {test.steps} steps in {output.duration(test.seconds)} on "
        f"{test.device_name}, rates from {curve.rates[0]:.1e} to {curve.rates[-1]:.1e}, each "
        f"{curve.rates[1] / curve.rates[0]:.2f} times the one before: {curve.ending.words}"
    )
    print(
        f"the smoothed loss is least ({min(curve.smoothed):.3g}) at {curve.best_rate:.1e}; "
        f"lr_max is 1/{SAFETY:.0f} of that\n"
    )
    print(test.lines)


def _json(test: RateTest, page: Path) -> dict[str, Any]:
    return {
        "study": test.study,
        "network": str(test.network),
        "decoder": None if test.decoder is None else str(test.decoder),
        "weight_sharing": test.weight_sharing,
        "batch_size": test.batch_size,
        "seed": test.seed,
        "device": test.device_name,
        "steps": test.steps,
        "ending": str(test.curve.ending),
        "lr_max": test.lr_max,
        "lr_min": test.lr_min,
        "best_rate": test.curve.best_rate,
        "rates": test.curve.rates,
        "losses": test.curve.losses,
        "smoothed": test.curve.smoothed,
        "page": str(page),
    }
