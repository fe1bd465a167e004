"""From a study to images on a device: read, check, split, move."""

from __future__ import annotations

from pathlib import Path

import torch

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.training.data_sets import load_images
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
    torch.set_num_threads(threads)
    # fp32 means fp32: cuDNN would round the factors of convolutions to 10 bits (TF32).
    torch.backends.cudnn.allow_tf32 = False
    images = load_images(definition.data_set, folder=folder)
    return make_splits(definition, images, device=torch.device(device))
