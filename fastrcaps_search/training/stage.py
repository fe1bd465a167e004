"""From a study to images on a device: read, check, split, move."""

from __future__ import annotations

from pathlib import Path

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.training.device import prepare
from fastrcaps_search.training.splits import Splits, make_splits


def stage(
    definition: StudyDefinition, *, device: str, threads: int, folder: Path | None
) -> Splits:
    """The study's splits on the device.

    Args:
        definition: The study.
        device: ``cpu``, ``cuda`` or ``cuda:1``.
        threads: Threads of torch in this process.
        folder: Folder with image data, or the default one.

    Raises:
        DataError: Data missing, corrupt or short.
    """
    place = prepare(device, threads=threads)
    images = definition.data_set.load(folder=folder)
    return make_splits(definition, images, device=place)
