"""What differs between a stored study and the one asked for, in words."""

from __future__ import annotations

from typing import Any

from fastrcaps_search.definition.checks import shown
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.store.records import StudyRecord


def difference(stored: StudyRecord, asked: StudyDefinition, *, seed: int | None) -> str:
    """``key: stored X, asked Y`` for every key that differs; empty when none does."""
    before, now = _flat(stored.definition.to_dict()), _flat(asked.to_dict())
    if seed is not None:
        before["seed"], now["seed"] = stored.seed, seed
    return "; ".join(
        f"{key}: stored {_text(before.get(key))}, asked {_text(now.get(key))}"
        for key in {**before, **now}
        if before.get(key) != now.get(key)
    )


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    flat = {key: value for key, value in values.items() if key != "space"}
    for key, value in (values["space"] or {}).items():
        flat[f"space.{key}"] = value
    return flat


def _text(value: object) -> str:
    return "nothing" if value is None else shown(value)
