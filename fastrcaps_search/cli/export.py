"""``export``: the network of a trial as a folder."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from fastrcaps_search.cli import commands, output
from fastrcaps_search.cli.texts import given_criteria
from fastrcaps_search.search.exporting import Exported, export_trial
from fastrcaps_search.store.store import opened_study


def export(arguments: argparse.Namespace) -> None:
    """Write the folder and say what is in it, why that trial, and what can be done with it."""
    folder = arguments.out
    with opened_study(commands.location(arguments), arguments.study) as (store, study):
        exported = export_trial(
            store,
            study,
            folder,
            trial=arguments.trial,
            criteria=given_criteria(arguments),
            run=arguments.run,
            onnx=arguments.onnx,
            opset=arguments.opset,
        )
    _tell(exported, folder)


def _tell(exported: Exported, folder: Path) -> None:
    card, definition = exported.card, exported.card.definition
    print(f"{definition.name}: trial {card.trial}, {exported.why}; run {card.run}")
    tested, means, trial = "", "", exported.trial
    if card.test_accuracy is not None:
        tested = f", {output.fraction(card.test_accuracy)} on the test set"
    if trial.values is not None and len(trial.results) > 1:
        mean = output.fraction(trial.values.accuracy)
        means = f"; the mean of the trial's {len(trial.results)} runs is {mean}"
    print(
        f"accuracy {output.fraction(card.accuracy)} on the {definition.evaluate_on.images}"
        f"{tested}, after epoch {card.best_epoch}{means}"
    )
    for path in sorted(folder.iterdir()):
        print(f"wrote {path} ({path.stat().st_size:,} bytes)")
    print("next:")
    print(f"  fastrcaps-search evaluate {shlex.quote(str(folder))}")
    print(f"  fastrcaps_search.load_network({str(folder)!r}).predict(image)  # in Python, 28x28")
