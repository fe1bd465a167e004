"""``doctor``: what this machine has."""

from __future__ import annotations

import argparse
import platform
from importlib import metadata

from fastrcaps_search.cli import commands, output
from fastrcaps_search.data.shipped import DATA_SETS
from fastrcaps_search.errors import FastrcapsError
from fastrcaps_search.store.store import Store
from fastrcaps_search.training.resources import cores

PACKAGES = ("torch", "torchvision", "optuna", "sqlalchemy", "plotly", "pandas", "moocore")


def doctor(arguments: argparse.Namespace) -> int:
    """Print a line per finding; exit code 1 where something is missing that every study needs."""
    facts = {
        "fastrcaps-search": commands.version_line().rpartition(" ")[2],
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": cores(),
        **{package: _version(package) for package in PACKAGES},
        "devices": _devices(),
        **{f"data {one}": one.place(commands.data_folder(arguments)) for one in DATA_SETS},
        "store": _store(arguments),
    }
    if arguments.json:
        output.print_json(facts)
    else:
        width = max(len(key) for key in facts)
        for key, value in facts.items():
            print(f"{key.ljust(width)}  {value}")
    return 1 if "not installed" in facts.values() else 0


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _devices() -> str:
    try:
        from fastrcaps_search.training import device
    except ImportError as error:
        return f"torch cannot be imported: {error}"
    return ", ".join(f"{name} ({device.device_name(name)})" for name in device.devices())


def _store(arguments: argparse.Namespace) -> str:
    location = commands.location(arguments)
    if location.path is not None and not location.path.exists():
        return f"{location.shown}: none yet; the first run makes it"
    try:
        store = Store.reading(location)
        try:
            names = ", ".join(store.study_names()) or "no study"
        finally:
            store.close()
    except FastrcapsError as error:
        return str(error)
    return f"{location.shown}: {names}"
