"""``doctor`` and ``studies``: what is here, on this machine and among the study files."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from importlib import metadata

from fastrcaps_search.cli import commands, output
from fastrcaps_search.data.shipped import DATA_SETS
from fastrcaps_search.definition.load import load_study, shipped_names
from fastrcaps_search.definition.release import release
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.definition.toml import study_toml
from fastrcaps_search.errors import FastrcapsError
from fastrcaps_search.search.configurations import configuration_count
from fastrcaps_search.search.files import require_usable
from fastrcaps_search.search.machine import device_names
from fastrcaps_search.search.slots import runtime_folder
from fastrcaps_search.store.store import Store
from fastrcaps_search.training.resources import granted_cores

PACKAGES = ("torch", "torchvision", "optuna", "sqlalchemy", "plotly", "pandas", "moocore")


def doctor(arguments: argparse.Namespace) -> int:
    """Print a line per finding; exit code 1 where something is missing that every study needs."""
    broken: list[str] = []

    def told(ask: Callable[[], str]) -> str:
        try:
            return ask()
        except FastrcapsError as error:
            broken.append(str(error))
            return broken[-1]

    granted = granted_cores()
    facts = {
        "fastrcaps-search": release(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": granted.amount,
        "cores by": granted.by or "this machine",
        **{package: _version(package) for package in PACKAGES},
        "devices": told(_devices),
        **{f"data {one}": one.place(commands.data_folder(arguments)) for one in DATA_SETS},
        "store": _store(arguments),
        "files": told(lambda: _files(arguments)),
        "runtime folder": told(lambda: str(runtime_folder())),
    }
    if arguments.json:
        output.print_json(facts)
    else:
        output.print_table(list(facts.items()))
    return 1 if broken or "not installed" in facts.values() else 0


def _devices() -> str:
    # In another process: a broken torch may end the one that imports it.
    return ", ".join(f"{device} ({name})" for device, name in device_names().items())


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _files(arguments: argparse.Namespace) -> str:
    location = commands.location(arguments)
    require_usable(location)
    return location.place


def _store(arguments: argparse.Namespace) -> str:
    location = commands.location(arguments)
    if location.path is not None and not location.path.exists():
        return f"{location.shown}: none yet; the first run makes it"
    try:
        with Store.reading(location) as store:
            names = ", ".join(store.study_names()) or "no study"
    except FastrcapsError as error:
        return str(error)
    return f"{location.shown}: {names}"


def studies(arguments: argparse.Namespace) -> None:
    """List the shipped studies, or show one in full."""
    if arguments.study is not None:
        _show(load_study(arguments.study), json=arguments.json)
        return
    definitions = [load_study(name) for name in shipped_names()]
    if arguments.json:
        output.print_json([definition.to_dict() for definition in definitions])
        return
    head = ("study", "network", "data set", "epochs", "runs", "evaluates on", "configurations")
    rows = [
        (
            definition.name,
            definition.network,
            definition.data_set,
            definition.epochs_shown,
            definition.runs_per_trial,
            definition.evaluate_on,
            _count(definition),
        )
        for definition in definitions
    ]
    output.print_table([head, *rows])


def _show(definition: StudyDefinition, *, json: bool) -> None:
    if json:
        output.print_json(definition.to_dict())
    else:
        print(study_toml(definition))
        print(f"\n# valid; {_count(definition)} configurations")


def _count(definition: StudyDefinition) -> str:
    count = configuration_count(definition)
    return "infinitely many" if count is None else str(count)
