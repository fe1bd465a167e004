"""From what ``--study`` says to the name under which the study is stored."""

from __future__ import annotations

from pathlib import Path

from fastrcaps_search.definition.load import load_study, shipped_names


def stored_name(study: str) -> str:
    """Name of a study given by a shipped name, a study file, or the name in a database."""
    if study not in shipped_names() and (study.endswith(".toml") or Path(study).is_file()):
        return load_study(study).name
    return study
