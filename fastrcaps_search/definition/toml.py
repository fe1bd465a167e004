"""A definition as the text of a study file."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from fastrcaps_search.definition.space import replaced_keys
from fastrcaps_search.definition.study import StudyDefinition

TABLES = {"space": "[space]", "configuration": "[[configuration]]"}


def study_toml(definition: StudyDefinition, *, without: Collection[str] = ()) -> str:
    """Every key that is set, in the order of a study file, but those in ``without``.

    Without the values that the space replaces.
    """
    values = {
        key: value
        for key, value in definition.to_dict().items()
        if value is not None and key not in without
    }
    apart = {*TABLES, *replaced_keys(values.get("space", {}))}
    lines = _lines({key: value for key, value in values.items() if key not in apart})
    for key, title in TABLES.items():
        found = values.get(key, [])
        for table in [found] if isinstance(found, dict) else found:
            lines += ["", title, *_lines(table)]
    return "\n".join(lines)


def _lines(values: Mapping[str, Any]) -> list[str]:
    # JSON writes strings, numbers, truth and lists of these as TOML does.
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
