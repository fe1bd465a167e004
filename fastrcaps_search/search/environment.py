"""Environment variables that stand in for flags."""

from __future__ import annotations

STORAGE_VARIABLE = "FASTRCAPS_STORAGE"
DATA_VARIABLE = "FASTRCAPS_DATA"
