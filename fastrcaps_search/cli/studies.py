"""``studies``: list, show and check study files."""

from __future__ import annotations

import argparse

from fastrcaps_search.cli import output
from fastrcaps_search.definition.checks import shown
from fastrcaps_search.definition.load import load_study, shipped_names
from fastrcaps_search.definition.study import StudyDefinition
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
                definition.data_set,
                str(definition.epochs),
                str(definition.runs_per_trial),
                definition.evaluate_on,
                _count(definition),
            )
            for definition in definitions
        ],
    )
    return 0


def _show(definition: StudyDefinition, *, json: bool) -> int:
    values = definition.to_dict()
    if json:
        output.print_json(values)
        return 0
    space, listed = values.pop("space"), values.pop("configuration")
    for key, value in values.items():
        if value is not None:
            print(f"{key} = {shown(value)}")
    for title, tables in (
        ("[space]", [space] if space else []),
        ("[[configuration]]", listed or []),
    ):
        for table in tables:
            print(f"\n{title}")
            for key, value in table.items():
                print(f"{key} = {shown(value)}")
    print(f"\n# valid; {_count(definition)} configurations")
    return 0


def _count(definition: StudyDefinition) -> str:
    count = configuration_count(definition)
    return "infinitely many" if count is None else str(count)
