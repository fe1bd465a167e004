"""Accuracy of a network whose answers are planted in the images."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from fastrcaps_search.capsnet.lenet import LeNet5
from fastrcaps_search.capsnet.network import CapsNet
from fastrcaps_search.capsnet.trainable import TrainableNetwork
from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.definition.networks import Width
from fastrcaps_search.training.kernels import make_step
from fastrcaps_search.training.splits import Split, classes, hits

LENET, CAPSNET = "eager-2-mkl", "cpu-2-mkl"

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    """Weights of the networks here; the global generator is given back."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        yield


class ReadsFirstPixel(LeNet5):
    """Takes the class from the first pixel, and keeps what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, bool, bool, float]] = []

    def classify(self, images: Tensor) -> Tensor:
        self.seen.append(
            (len(images), self.training, torch.is_grad_enabled(), float(images.max()))
        )
        return nn.functional.one_hot((images[:, 0, 0, 0] * 255).round().long(), 10).float()


def split_of(answers: list[int], labels: list[int]) -> Split:
    images = torch.zeros(len(labels), 28, 28, dtype=torch.uint8)
    images[:, 0, 0] = torch.tensor(answers, dtype=torch.uint8)
    images[0, 27, 27] = 255
    return Split(images, torch.tensor(labels))


def accuracy(network: TrainableNetwork, split: Split, *, kernel: str) -> float:
    return int(hits(make_step(network, kernel=kernel), split).sum()) / len(split)


def test_accuracy_is_the_fraction_that_is_right() -> None:
    network = ReadsFirstPixel()
    assert accuracy(network, split_of([3, 1, 4, 1], [3, 1, 4, 2]), kernel=LENET) == 0.75
    assert accuracy(network, split_of([3], [3]), kernel=LENET) == 1.0
    assert accuracy(network, split_of([3], [4]), kernel=LENET) == 0.0


def test_all_images_count_once_over_several_batches() -> None:
    # 601 images: the answers go 0 to 9 in turn, wrong for every seventh image, of which there
    # are 86 (0, 7, ..., 595).
    labels = [number % 10 for number in range(601)]
    answers = [(label + (number % 7 == 0)) % 10 for number, label in enumerate(labels)]
    network = ReadsFirstPixel()
    assert accuracy(network, split_of(answers, labels), kernel=LENET) == (601 - 86) / 601
    assert [size for size, *_ in network.seen] == [100] * 6 + [1]


@pytest.mark.parametrize("training", [True, False])
def test_evaluation_leaves_the_network_as_it_was(training: bool) -> None:
    network = ReadsFirstPixel().train(training)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    accuracy(network, split_of([3, 1], [3, 1]), kernel=LENET)
    # One batch, in evaluation mode, without gradients, pixels up to 1.
    assert network.seen == [(2, False, False, 1.0)]
    assert network.training is training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_a_constant_network_is_right_as_often_as_its_class_comes() -> None:
    network = LeNet5()
    nn.init.zeros_(network.linear3.weight)
    with torch.no_grad():
        network.linear3.bias.copy_(torch.eye(10)[3])
    assert accuracy(network, split_of([0] * 8, [3, 3, 1, 2, 3, 9, 0, 3]), kernel=LENET) == 0.5


def test_nothing_is_kept_of_an_answer_that_is_not_a_number() -> None:
    network = LeNet5()
    nn.init.constant_(network.linear3.bias, float("nan"))
    # Every class is NaN, and the first of them is class 0.
    assert accuracy(network, split_of([0] * 4, [0, 1, 2, 3]), kernel=LENET) == 0.25


@pytest.mark.parametrize("kernel", ["cpu-2-mkl", "cpu-2-bf16"])
def test_a_capsnet_is_classified_as_its_modules_do(kernel: str) -> None:
    network = CapsNet(Width(channels=16, types=2), decoder=Decoder.FULL, weight_sharing=True)
    with torch.no_grad():
        network.class_capsules.weight.mul_(10)
    # Two whole batches and 31 images more.
    images = torch.randint(256, (231, 28, 28), dtype=torch.uint8)
    with torch.no_grad():
        answers = network.classify(images[:, None].float() / 255).argmax(1)
    assert len(answers.unique()) > 2
    wrong = answers.clone()
    wrong[[0, 99, 100, 230]] = (wrong[[0, 99, 100, 230]] + 1) % 10
    found = accuracy(network, Split(images, wrong), kernel=kernel)
    # Rounding to bfloat16 may move an image between two classes that are nearly as long.
    allowed = 0.03 if kernel == "cpu-2-bf16" else 0.0
    assert found == pytest.approx(227 / 231, abs=allowed)
    assert network.training


def test_classes_are_those_of_the_weights_as_they_are_now() -> None:
    network = CapsNet(Width(channels=16, types=2), decoder=Decoder.FULL, weight_sharing=True)
    images = torch.randint(256, (130, 28, 28), dtype=torch.uint8)
    step = make_step(network, kernel=CAPSNET)

    def answers() -> Tensor:
        with torch.no_grad():
            return network.classify(images[:, None].float() / 255).argmax(1)

    first = answers()
    assert torch.equal(classes(step, Split(images, first)), first)
    with torch.no_grad():
        network.class_capsules.weight.copy_(network.class_capsules.weight.flip(2))
        network.primary_capsules.convolution.weight.mul_(3)
    second = answers()
    assert not torch.equal(first, second)
    step.load(dict(network.state_dict()), step.optimiser_state())
    assert torch.equal(classes(step, Split(images, first)), second)
