"""Which release of this package is installed."""

from __future__ import annotations

from importlib import metadata


def release() -> str:
    """Version of the package, or that it is not installed."""
    try:
        return metadata.version("fastrcaps-search")
    except metadata.PackageNotFoundError:
        return "(not installed)"
