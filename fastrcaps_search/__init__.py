"""Search how to train a capsule network: accuracy, training time and size on one front.

The command line and these names are the public interface. They are imported when first used, so
that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Under their own names, which says that they are for others.
    from fastrcaps_search.api.reading import compare_trials as compare_trials
    from fastrcaps_search.api.reading import exclude_trial as exclude_trial
    from fastrcaps_search.api.reading import include_trial as include_trial
    from fastrcaps_search.api.reading import read_front as read_front
    from fastrcaps_search.api.reading import read_status as read_status
    from fastrcaps_search.api.reading import read_trials as read_trials
    from fastrcaps_search.api.reading import select_trial as select_trial
    from fastrcaps_search.api.running import export_network as export_network
    from fastrcaps_search.api.running import find_rates as find_rates
    from fastrcaps_search.api.running import run_study as run_study
    from fastrcaps_search.definition.load import load_study as load_study
    from fastrcaps_search.definition.study import StudyDefinition as StudyDefinition
    from fastrcaps_search.errors import FastrcapsError as FastrcapsError
    from fastrcaps_search.export.loader import load_network as load_network

_HOMES = {
    "FastrcapsError": "errors",
    "StudyDefinition": "definition.study",
    "compare_trials": "api.reading",
    "exclude_trial": "api.reading",
    "export_network": "api.running",
    "find_rates": "api.running",
    "include_trial": "api.reading",
    "load_network": "export.loader",
    "load_study": "definition.load",
    "read_front": "api.reading",
    "read_status": "api.reading",
    "read_trials": "api.reading",
    "run_study": "api.running",
    "select_trial": "api.reading",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    """Import a public name from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fastrcaps_search.errors import importing

    with importing():
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """The public names, so that an interactive shell completes them."""
    return __all__
