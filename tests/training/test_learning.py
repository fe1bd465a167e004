"""That the network of the main study learns where it did not without the factor 1/T."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from fastrcaps_search.capsnet.network import CapsNet, build_network
from fastrcaps_search.definition.choices import Decoder, Precision
from fastrcaps_search.definition.schedules import batches
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.training.kernels import choose_kernel, make_step, make_trainer
from fastrcaps_search.training.splits import Split, hits, stage

STUDY = {"name": "s", "data_set": "mnist", "train_images": 1600, "epochs": 1}


@pytest.mark.slow
def test_shared_weights_learn_within_a_hundred_steps_of_batch_16() -> None:
    folder = os.environ.get("FASTRCAPS_DATA")
    if folder is None:
        pytest.skip("FASTRCAPS_DATA does not name the folder of the real data")
    definition = StudyDefinition.from_dict(STUDY)
    splits = stage(definition, device="cpu", threads=2, folder=Path(folder))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = build_network("capsnet", decoder=Decoder.REDUCED, weight_sharing=True)
    assert isinstance(network, CapsNet)
    kernel = choose_kernel(torch.device("cpu"), network="capsnet", precision=Precision.FP32)
    trainer = make_trainer(
        network.train(),
        splits.training,
        seed=0,
        shifts=True,
        kernel=kernel,
    )
    sizes = batches(len(splits.training), 16)
    for _ in trainer.epoch(1, sizes, [1e-3] * len(sizes)):
        pass
    trainer.trained.copy_to_module()
    few = Split(splits.evaluation.images[:500], splits.evaluation.labels[:500])
    # 84 %; without the factor 9.2 %, that of guessing.
    right = hits(make_step(network, kernel=kernel), few)
    assert int(right.sum()) / len(few) > 0.6
