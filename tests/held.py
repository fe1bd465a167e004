"""A study whose trainings hold out, without work for the processor, for as long as a test says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from fastrcaps_search.definition.networks import NETWORKS
from tests import plug_in

STEP_SECONDS = 0.5
EPOCHS, STEPS = 20, 8
"""Held, a trial takes 80 s: the five of two workers longer than what a test does to them."""

NETWORK = """
import os
import time

from fastrcaps_search.definition.networks import NETWORKS, Network


def held():
    from torch import nn

    from fastrcaps_search.capsnet.trainable import TrainableNetwork

    class Held(TrainableNetwork):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(28 * 28, 10)

        def forward(self, images):
            if self.training and os.path.exists({hold!r}):
                time.sleep({step_seconds})
            return self.layer(images.flatten(1))

    return Held()


NETWORKS.register(Network(name="held", implementation="toy:held", parameters=lambda *_: 7850))
"""
STUDY = f"""
name = "long"
network = "held"
data_set = "mnist-mini"
epochs = {EPOCHS}
batch_size = 16
train_images = {16 * STEPS}
"""
POLICIES = ("fixed", "exponential_decay", "one_cycle", "warm_restarts", "polynomial_restarts")
# Listed, so that a number is always the same training.
CONFIGURATION = """
[[configuration]]
lr_policy = "{}"
batch_policy = "constant"
"""
TRIALS = len(POLICIES)


class Held:
    """The study ``long.toml`` in a folder, with its network as a plug-in.

    Args:
        folder: Where.
        patch: For this process, which reads what others store of the study.

    Attributes:
        variables: Of processes that are to know the network.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._hold = folder / "hold"
        self._hold.touch()
        (folder / "long.toml").write_text(STUDY + "".join(map(CONFIGURATION.format, POLICIES)))
        (place := folder / "plug-ins").mkdir()
        plug_in.install(place, NETWORK.format(hold=str(self._hold), step_seconds=STEP_SECONDS))
        patch.setenv("PYTHONPATH", str(place), prepend=":")
        patch.setattr(NETWORKS, "_items", dict(NETWORKS._items))
        runpy.run_path(str(place / "toy.py"))

    def release(self) -> None:
        """Let all trainings end in a moment."""
        self._hold.unlink()
