"""What there is to look at, against pictures and counts made in another way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fastrcaps_search.capsnet.network import CapsNet
from fastrcaps_search.data.shipped import MNIST_MINI
from fastrcaps_search.definition.choices import EvaluateOn
from fastrcaps_search.export.accuracy import Measurement, measure
from fastrcaps_search.export.loader import LoadedNetwork, load_network
from fastrcaps_search.export.samples import Samples, gather_samples

pytestmark = pytest.mark.usefixtures("torch_as_it_was")


@pytest.fixture(scope="module")
def capsnet(exports: dict[str, Path]) -> LoadedNetwork:
    return load_network(exports["small-capsnet"])


@pytest.fixture(scope="module")
def measured(torch_as_it_was: None, capsnet: LoadedNetwork) -> Measurement:
    return measure(capsnet, data_set=MNIST_MINI, split=EvaluateOn.TEST, folder=None)


@pytest.fixture(scope="module")
def found(capsnet: LoadedNetwork, measured: Measurement) -> Samples:
    return gather_samples(capsnet, measured)


def test_the_confusion_is_the_count_of_each_pair(measured: Measurement) -> None:
    counted = [[0] * 10 for _ in range(10)]
    for label, predicted in zip(measured.labels, measured.predicted, strict=True):
        counted[label][predicted] += 1
    assert measured.confusion.tolist() == counted
    assert sum(counted[label][label] for label in range(10)) == round(500 * measured.accuracy)


def test_mistakes_are_wrong_and_fall_in_confidence(
    capsnet: LoadedNetwork, measured: Measurement, found: Samples
) -> None:
    lengths = capsnet.scores(measured.images)
    wrong = [n for n in range(500) if measured.predicted[n] != measured.labels[n]]
    wrong.sort(key=lambda n: -lengths[n].max())
    assert len(wrong) > 24
    assert [mistake.number for mistake in found.mistakes] == wrong[:24]
    for mistake in found.mistakes:
        assert mistake.confidence == pytest.approx(lengths[mistake.number].max(), abs=1e-6)


def test_pairs_are_the_first_images_of_each_class_and_their_reconstructions(
    capsnet: LoadedNetwork, measured: Measurement, found: Samples
) -> None:
    labels = measured.labels.tolist()
    firsts = [labels.index(label) for label in range(10)]
    seconds = [labels.index(label, first + 1) for label, first in enumerate(firsts)]
    assert [pair.number for pair in found.reconstructions] == [
        number for both in zip(firsts, seconds, strict=True) for number in both
    ]
    for pair in found.reconstructions[:6]:
        shades = capsnet.reconstruct(measured.images[pair.number]) * 255
        assert np.abs(pair.picture - shades).max() <= 0.51


def test_the_middle_of_a_sweep_is_the_reconstruction(
    capsnet: LoadedNetwork, measured: Measurement, found: Samples
) -> None:
    assert found.sweeps
    for sweep in found.sweeps:
        image = measured.images[sweep.number]
        assert sweep.pictures.shape == (16, 11, 28, 28)
        assert capsnet.predict(image) == measured.labels[sweep.number]
        assert sweep.length == pytest.approx(capsnet.scores(image).max(), abs=1e-6)
        shades = capsnet.reconstruct(image) * 255
        assert np.abs(sweep.pictures[:, 5] - shades).max() <= 0.51


@pytest.mark.parametrize(("column", "offset"), [(0, -0.25), (6, 0.05), (10, 0.25)])
def test_the_others_have_one_dimension_of_the_capsule_moved(
    capsnet: LoadedNetwork, measured: Measurement, found: Samples, column: int, offset: float
) -> None:
    network, sweep = capsnet.network, found.sweeps[0]
    image, label = measured.images[sweep.number], int(measured.labels[sweep.number])
    assert isinstance(network, CapsNet)
    assert network.decoder is not None
    with torch.no_grad():
        capsules = network.capsules(torch.from_numpy(image)[None, None] / 255)
        for dimension in (0, 7, 15):
            moved = capsules.clone()
            moved[0, label, dimension] += offset
            shades = network.decoder(moved, torch.tensor([label])).view(28, 28) * 255
            picture = sweep.pictures[dimension, column]
            assert np.abs(picture - shades.numpy()).max() <= 0.51
            assert not np.array_equal(picture, sweep.pictures[dimension, 5])


def test_lenet5_has_mistakes_alone(exports: dict[str, Path]) -> None:
    lenet = load_network(exports["small-lenet"])
    measured = measure(lenet, data_set=MNIST_MINI, split=EvaluateOn.TEST, folder=None)
    found = gather_samples(lenet, measured)
    assert (found.reconstructions, found.sweeps) == ((), ())
    first = found.mistakes[0]
    logits = lenet.scores(measured.images[first.number]).astype(float)
    softmax = np.exp(logits) / np.exp(logits).sum()
    assert first.confidence == pytest.approx(softmax[measured.predicted[first.number]], rel=1e-4)
