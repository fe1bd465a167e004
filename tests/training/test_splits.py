"""Splits, order and shifts, against numpy loops on images that carry their own number."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fastrcaps_search.data.data_set import Images
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.training.splits import EpochImages, Split, Splits, make_splits

CPU = torch.device("cpu")
SHIFTS = [(dy, dx) for dy in range(-2, 3) for dx in range(-2, 3)]


def numbered(count: int, *, offset: int = 0) -> NDArray[np.uint8]:
    """Images that are all zero but for their number in the first three pixels."""
    images = np.zeros((count, 28, 28), np.uint8)
    numbers = np.arange(count) + offset
    images[:, 0, 0], images[:, 0, 1] = numbers % 256, numbers // 256 % 256
    images[:, 0, 2] = numbers // 65_536
    return images


def numbers(images: torch.Tensor) -> list[int]:
    corner = images[:, 0, :3].to(torch.int64)
    found: list[int] = (corner @ torch.tensor([1, 256, 65_536])).tolist()
    return found


def splits_of(data_set: str, **study: object) -> Splits:
    """Splits of numbered images; the test images count on from one million."""
    train, test = (4500, 500) if data_set == "mnist-mini" else (60_000, 10_000)
    images = Images(
        numbered(train),
        (np.arange(train) % 10).astype(np.uint8),
        numbered(test, offset=1_000_000),
        (np.arange(test) % 7).astype(np.uint8),
    )
    values = {"name": "s", "network": "lenet5", "data_set": data_set, **study}
    return make_splits(StudyDefinition.from_dict(values), images, device=CPU)


@pytest.mark.parametrize(
    ("data_set", "train", "whole"),
    [("mnist", 55_000, 60_000), ("fashion-mnist", 55_000, 60_000), ("mnist-mini", 4000, 4500)],
)
def test_the_last_training_images_validate(data_set: str, train: int, whole: int) -> None:
    splits = splits_of(data_set)
    assert numbers(splits.training.images) == list(range(train))
    assert numbers(splits.evaluation.images) == list(range(train, whole))
    assert min(numbers(splits.test.images)) == 1_000_000
    for split, first in ((splits.training, 0), (splits.evaluation, train)):
        labels = [number % 10 for number in range(first, first + len(split))]
        assert split.labels.tolist() == labels
    assert splits.training.images.dtype == torch.uint8
    assert splits.training.labels.dtype == torch.int64


def test_train_images_takes_the_first_ones_and_leaves_the_others_as_they_are() -> None:
    splits = splits_of("mnist-mini", train_images=100)
    assert numbers(splits.training.images) == list(range(100))
    assert numbers(splits.evaluation.images) == list(range(4000, 4500))
    assert len(splits.test) == 500


def test_the_papers_protocol_trains_on_all_and_evaluates_on_the_test_set() -> None:
    splits = splits_of("mnist-mini", evaluate_on="test")
    assert numbers(splits.training.images) == list(range(4500))
    assert numbers(splits.evaluation.images) == list(range(1_000_000, 1_000_500))
    assert splits.test is splits.evaluation
    assert splits.test.labels.tolist() == [number % 7 for number in range(500)]


def noise(count: int) -> Split:
    """Images of which no two look alike under any shift, labelled with their own index."""
    generator = np.random.default_rng(0)
    images = generator.integers(1, 256, (count, 28, 28), dtype=np.uint8)
    return Split(torch.from_numpy(images), torch.arange(count))


def drawn(
    split: Split, *, epoch: int = 1, seed: int = 5, size: int = 32, shifts: bool = True
) -> tuple[NDArray[np.float32], list[int]]:
    """All images of an epoch, as drawn, and their labels."""
    count = len(split)
    sizes = [min(size, count - start) for start in range(0, count, size)]
    images, labels = [], []
    for batch, chosen in EpochImages(split, seed=seed, shifts=shifts).epoch(epoch, sizes):
        assert batch.dtype == torch.float32
        assert batch.shape == (len(chosen), 1, 28, 28)
        assert chosen.dtype == torch.int64
        images.append(batch.numpy())
        labels += chosen.tolist()
    assert [len(batch) for batch in images] == sizes
    return np.concatenate(images)[:, 0], labels


def shifted(image: NDArray[np.uint8], dy: int, dx: int) -> NDArray[np.uint8]:
    """``image`` moved down by ``dy`` and right by ``dx``, pixel by pixel, zero where it came."""
    moved = np.zeros_like(image)
    for row, column in product(range(28), repeat=2):
        if 0 <= row - dy < 28 and 0 <= column - dx < 28:
            moved[row, column] = image[row - dy, column - dx]
    return moved


def test_each_image_is_shifted_by_up_to_two_pixels_and_keeps_its_label() -> None:
    split = noise(250)
    images, labels = drawn(split)
    # Whole numbers come back from [0, 1]: a pixel of p is p / 255.
    pixels = np.rint(images * 255).astype(np.uint8)
    np.testing.assert_array_equal(images, (pixels / np.float32(255)).astype(np.float32))
    found = []
    for image, label in zip(pixels, labels, strict=True):
        source = split.images[label].numpy()
        matches = [
            (dy, dx)
            for dy, dx in SHIFTS
            # The middle first, which rules out all shifts but one: the loop is slow.
            if np.array_equal(image[2:26, 2:26], source[2 - dy : 26 - dy, 2 - dx : 26 - dx])
            and np.array_equal(image, shifted(source, dy, dx))
        ]
        assert len(matches) == 1
        found += matches
    assert set(found) == set(SHIFTS)
    # 250 draws of 25: ten each on average. 25 or more of one is a chance in ten thousand.
    assert max(found.count(shift) for shift in SHIFTS) < 25


def test_without_shifts_the_images_are_as_they_are() -> None:
    split = noise(100)
    images, labels = drawn(split, shifts=False)
    assert sorted(labels) == list(range(100))
    expected = split.images.numpy()[labels].astype(np.float32) / 255
    np.testing.assert_array_equal(images, expected)
    assert images.min() >= 0.0
    assert images.max() <= 1.0


def test_every_epoch_sees_every_image_once_in_an_order_of_its_own() -> None:
    split = noise(101)
    orders = []
    for seed in (0, 1):
        for epoch in (1, 2, 3):
            _, labels = drawn(split, epoch=epoch, seed=seed)
            assert sorted(labels) == list(range(101))
            orders.append(tuple(labels))
    assert len(set(orders)) == 6


def test_an_epoch_depends_on_seed_and_number_alone() -> None:
    split = noise(101)
    images, labels = drawn(split, epoch=2)
    for size in (1, 16, 101):
        again, same = drawn(split, epoch=2, size=size)
        assert same == labels
        np.testing.assert_array_equal(again, images)
    # Nor on the epochs before it.
    source = EpochImages(split, seed=5, shifts=True)
    list(source.epoch(1, [101]))
    [(batch, same_labels)] = source.epoch(2, [101])
    assert same_labels.tolist() == labels
    np.testing.assert_array_equal(batch[:, 0].numpy(), images)


def test_the_order_is_the_same_with_and_without_shifts() -> None:
    split = noise(50)
    assert drawn(split, shifts=True)[1] == drawn(split, shifts=False)[1]


def test_shifts_of_different_epochs_differ() -> None:
    split = noise(40)
    (first, labels), (second, others) = drawn(split, epoch=1), drawn(split, epoch=2)
    first, second = first[np.argsort(labels)], second[np.argsort(others)]
    same = [np.array_equal(a, b) for a, b in zip(first, second, strict=True)]
    assert sum(same) < 10  # one in 25 on average


def test_drawing_does_not_touch_the_global_generator() -> None:
    before = torch.get_rng_state()
    drawn(noise(10))
    assert torch.equal(torch.get_rng_state(), before)


def test_batches_of_a_split_in_order() -> None:
    split = noise(10)
    batches = list(split.batches(4))
    assert [len(labels) for _, labels in batches] == [4, 4, 2]
    images = torch.cat([images for images, _ in batches])
    assert torch.cat([labels for _, labels in batches]).tolist() == list(range(10))
    assert images.shape == (10, 1, 28, 28)
    expected = split.images.numpy().astype(np.float32) / 255
    np.testing.assert_array_equal(images[:, 0].numpy(), expected)
