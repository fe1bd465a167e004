"""``studies``: list, show and check study files."""

from __future__ import annotations

import argparse

from fastrcaps_search.cli import output
from fastrcaps_search.definition.load import load_study, shipped_names
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.definition.toml import study_toml
from fastrcaps_search.search.configurations import configuration_count


def studies(arguments: argparse.Namespace) -> int:
    """List the shipped studies, or show one in full."""
    if arguments.study is not None:
        return _show(load_study(arguments.study), json=arguments.json)
    definitions = [load_study(name) for name in shipped_names()]
    if arguments.json:
        output.print_json([definition.to_dict() for definition in definitions])
        return 0
    output.print_table(
        ("study", "network", "data set", "epochs", "runs", "evaluates on", "configurations"),
        [
            (
                definition.name,
                definition.network,
                str(definition.data_set),
                definition.epochs_shown,
                str(definition.runs_per_trial),
                definition.evaluate_on,
                _count(definition),
            )
            for definition in definitions
        ],
    )
    return 0


def _show(definition: StudyDefinition, *, json: bool) -> int:
    if json:
        output.print_json(definition.to_dict())
        return 0
    print(study_toml(definition))
    print(f"\n# valid; {_count(definition)} configurations")
    return 0


def _count(definition: StudyDefinition) -> str:
    count = configuration_count(definition)
    return "infinitely many" if count is None else str(count)
