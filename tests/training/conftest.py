"""Small real images, and one thread: equal bits, and no crowd on a loaded machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fastrcaps_search.training.splits import Splits


@pytest.fixture
def one_thread() -> Iterator[None]:
    """One thread of torch during a test, as many as before after it."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def mini_splits() -> Splits:
    """64 real digits to train on, and 40 others to evaluate on."""
    import torch

    from fastrcaps_search.data.shipped import MNIST_MINI
    from fastrcaps_search.definition.study import StudyDefinition
    from fastrcaps_search.training.splits import Split, make_splits

    definition = StudyDefinition.from_dict(
        {"name": "s", "network": "lenet5", "data_set": "mnist-mini", "train_images": 64}
    )
    images = MNIST_MINI.load(folder=None)
    splits = make_splits(definition, images, device=torch.device("cpu"))
    few = Split(splits.evaluation.images[:40], splits.evaluation.labels[:40])
    return replace(splits, evaluation=few)
