"""Learning curves as the page carries them: 16 bits a number, in base64.

A page of 100,000 epochs has no room for decimals.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fastrcaps_search.report.trials import TrialView
from fastrcaps_search.store.records import RunRecord

MOST_EPOCHS = 300_000
"""Stored epochs up to which the page carries every learning curve."""
UNITS = 50_000
"""Parts of a packed fraction; the images of each split divide it, so accuracies are exact."""
UNKNOWN = 65_535
"""Packed number that stands for none."""


def carried(trials: Iterable[TrialView]) -> set[int]:
    """Trials whose curves fit: those on the front first, then by number."""
    left = MOST_EPOCHS
    found = set()
    for trial in sorted(trials, key=lambda trial: not trial.on_front):
        left -= len(trial.record.epochs)
        if left < 0:
            break
        found.add(trial.number)
    return found


def curve(trial: TrialView, run: RunRecord) -> dict[str, Any]:
    """Accuracies of a run's epochs, and their seconds as parts of the longest."""
    epochs = [epoch.metrics for epoch in trial.record.epochs if epoch.run == run.run]
    seconds = [epoch.training_seconds for epoch in epochs]
    longest = max(filter(math.isfinite, seconds), default=0.0)
    return {
        "curve": _packed([epoch.accuracy for epoch in epochs]),
        "longest": longest,
        "spent": _packed([spent / (longest or 1.0) for spent in seconds]),
    }


def _packed(fractions: Sequence[float]) -> str:
    whole = np.array(fractions, dtype=float) * UNITS
    known = np.isfinite(whole)
    packed = np.where(known, np.clip(np.rint(np.where(known, whole, 0)), 0, UNITS), UNKNOWN)
    return base64.b64encode(packed.astype("<u2").tobytes()).decode()
