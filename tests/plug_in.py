"""A distribution with a plug-in, as pip installs one."""

from __future__ import annotations

from pathlib import Path


def install(folder: Path, module: str) -> None:
    """Put a distribution into a folder whose one module, ``toy``, is a plug-in."""
    (folder / "toy.py").write_text(module)
    facts = folder / "toy-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1\n")
    (facts / "entry_points.txt").write_text("[fastrcaps_search.plugins]\ntoy = toy\n")
