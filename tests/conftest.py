"""What every test shares: settings, a clean environment, and the skipping of GPU tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

import fastrcaps_search

# The same examples every time, and no example database beside the tests.
settings.register_profile("same-every-time", derandomize=True, deadline=None, database=None)
settings.load_profile("same-every-time")


def pytest_configure() -> None:
    """Forgets a store that the caller's shell names: no test may write into it."""
    os.environ.pop("FASTRCAPS_STORAGE", None)


def pytest_report_header() -> str:
    """Says which copy of the package is tested: the installed one or the checkout."""
    return f"fastrcaps_search: {', '.join(fastrcaps_search.__path__)}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips GPU tests where there is no GPU; torch is imported only if one was collected."""
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if not on_gpu:
        return
    import torch

    if not torch.cuda.is_available():
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device; torch sees none here"))
