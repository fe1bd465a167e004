"""``evaluate``: an exported network, measured again and looked at."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fastrcaps_search.cli import commands, output
from fastrcaps_search.cli.report import page_folder
from fastrcaps_search.errors import FastrcapsError
from fastrcaps_search.export.accuracy import Measurement, measure
from fastrcaps_search.export.loader import load_network
from fastrcaps_search.export.samples import gather_samples
from fastrcaps_search.report.evaluation import evaluation_page
from fastrcaps_search.report.write import write_file


def evaluate(arguments: argparse.Namespace) -> None:
    """Print the accuracy and the confusion matrix, and write the page.

    Raises:
        FastrcapsError: The accuracy is not the stored one, where it must be.
    """
    loaded = load_network(arguments.folder)
    folder = commands.data_folder(arguments)
    measured = measure(loaded, data_set=arguments.data_set, split=arguments.split, folder=folder)
    page = arguments.out or page_folder() / _page_name(measured)
    # Before the page, which may not be writable.
    if arguments.json:
        output.print_json(_json(measured, page))
    else:
        _tell(measured)
    write_file(page, evaluation_page(measured, gather_samples(loaded, measured)))
    if not arguments.json:
        print(f"\npage: {page}")
    _judge(measured)


def _page_name(measured: Measurement) -> str:
    """One name for each thing that can be measured."""
    card = measured.card
    other = "" if measured.data_set == card.definition.data_set else f"{measured.data_set}-"
    return f"{card.definition.name}-trial-{card.trial}-run-{card.run}-{other}{measured.split}.html"


def _tell(measured: Measurement) -> None:
    card = measured.card
    print(
        f"{card.definition.name}: trial {card.trial}, run {card.run}: "
        f"{output.fraction(measured.accuracy)} of the {len(measured.labels):,} images of "
        f"{measured.data_set}'s {measured.split.images}{_compared(measured)}"
    )
    print("\nrows: true classes; columns: predicted classes\n")
    output.print_table(_rows(measured))


def _compared(measured: Measurement) -> str:
    if measured.stored is None:
        return "; no accuracy of it is stored"
    if measured.is_equal:
        return ", equal to the stored accuracy"
    return f"; the stored accuracy is {output.fraction(measured.stored)}"


def _rows(measured: Measurement) -> list[list[object]]:
    """Head and rows of the confusion matrix, with the accuracy of each class."""
    rows: list[list[object]] = [["", *measured.card.classes, "images", "right"]]
    for label, counts in enumerate(measured.confusion.tolist()):
        share = counts[label] / sum(counts) if sum(counts) else None
        cells = [count or "." for count in counts]
        rows.append([measured.classes[label], *cells, sum(counts), output.fraction(share)])
    return rows


def _json(measured: Measurement, page: Path) -> dict[str, Any]:
    card = measured.card
    return {
        "study": card.definition.name,
        "trial": card.trial,
        "run": card.run,
        "data_set": str(measured.data_set),
        "split": str(measured.split),
        "images": len(measured.labels),
        "accuracy": measured.accuracy,
        "stored_accuracy": measured.stored,
        "equal": measured.is_equal,
        "confusion": measured.confusion.tolist(),
        "page": str(page),
    }


def _judge(measured: Measurement) -> None:
    """Refuse an accuracy that is not the stored one, or warn where it need not be."""
    if measured.is_equal is not False:
        return
    differs = f"the accuracy must be the stored {measured.stored!r}, got {measured.accuracy!r}"
    if measured.is_same_setting:
        raise FastrcapsError(f"{differs} on the same device, torch and kernel; export it again")
    then, now = measured.card.setting, measured.setting
    output.tell(
        f"warning: {differs}; it was trained on {then.device_name} with torch "
        f"{then.torch_version}, {then.kernel} and {then.threads} threads, and measured on "
        f"{now.device_name} with torch {now.torch_version}, {now.kernel} and {now.threads}"
    )
