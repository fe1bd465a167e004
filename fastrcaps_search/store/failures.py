"""Failures as columns of a row."""

from __future__ import annotations

from typing import Any

from fastrcaps_search.store.records import Failure


def failure_values(failure: Failure) -> dict[str, Any]:
    """Columns of a failure, of characters that every database takes."""
    return {
        "failure_kind": storable(failure.kind),
        "failure_message": storable(failure.message),
        "failure_trace": storable(failure.trace),
        "log_path": storable(failure.log_path),
    }


def storable(text: str) -> str:
    """The text without NUL and halves of characters."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def failure_facts(failure: Failure) -> dict[str, object]:
    """What a worker tells of a failure."""
    return {"reason": failure.message, "diverged": failure.is_divergence}
