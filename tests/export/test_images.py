"""Images that are unlike those of the training: refused with the right change, or warned of."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from fastrcaps_search.data.data_set import DataSet
from fastrcaps_search.data.shipped import FASHION_MNIST, MNIST_MINI
from fastrcaps_search.errors import UsageError
from fastrcaps_search.export.images import as_batch
from fastrcaps_search.export.loader import LoadedNetwork, load_network

Floats = NDArray[np.float64]
INVERTED = "^images must be like those of mnist-mini, light on dark, got dark on light; pass "
BLACK = "^images must be like those of mnist-mini, from 0 to {}, got black ones; do not divide"


@pytest.fixture(scope="module")
def lenet(exports: dict[str, Path]) -> LoadedNetwork:
    return load_network(exports["small-lenet"])


@pytest.fixture(scope="module")
def images() -> NDArray[np.uint8]:
    return MNIST_MINI.load(folder=None).test_images[::5]


def resized(images: Floats) -> Floats:
    """Half as large and back by Pillow's bicubic filter, which overshoots."""
    pictures = [Image.fromarray(image.astype(np.float32)) for image in images]
    half = [picture.resize((14, 14), Image.Resampling.BICUBIC) for picture in pictures]
    back = [np.asarray(one.resize((28, 28), Image.Resampling.BICUBIC)) for one in half]
    return np.stack(back).astype(np.float64)


CLIP = (r"clip them, as in images\.clip\(0, 1\)", lambda x: x.clip(0, 1))
DIVIDE = ("divide them by 255", lambda x: (x / 255).clip(0, 1))
# What people pass, what they are told, and what that makes of it.
CHANGES: dict[str, tuple[Callable[[Floats], Any], str, Callable[[Any], Any]]] = {
    "a little above": (lambda x: np.where(x == 1, 1.02, x), *CLIP),
    "resized": (resized, *CLIP),
    "to 255": (lambda x: x * 255, *DIVIDE),
    "inverted to 255": (lambda x: 255 - x * 255, *DIVIDE),
    "resized to 255": (lambda x: resized(x * 255), *DIVIDE),
    "from -1": (lambda x: x * 2 - 1, r"pass \(images \+ 1\) / 2", lambda x: (x + 1) / 2),
    # As torchvision's Normalize((0.1307,), (0.3081,)), nearly.
    "normalised": (
        lambda x: (x - 0.1313) / 0.3086,
        r"take their normalisation back, as in images \* 0\.3086 \+ 0\.1313",
        lambda x: (x * 0.3086 + 0.1313).clip(0, 1),
    ),
}


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_another_range_is_told_the_change_that_mends_it(
    lenet: LoadedNetwork,
    images: NDArray[np.uint8],
    name: str,
    single: bool,
) -> None:
    change, advice, follow = CHANGES[name]
    given = change(images / 255)
    part = given[3] if single else given
    with pytest.raises(UsageError, match=rf", got \S+ to \S+; {advice}$"):
        lenet.predict(part)
    # Who follows the advice gets the classes of the images, but for what resizing took away.
    mended = follow(given)
    if name.startswith("inverted"):
        with pytest.warns(UserWarning, match=INVERTED):
            lenet.predict(mended)
        mended = 1 - mended
    assert np.mean(lenet.predict(mended) == lenet.predict(images)) > 0.85


@pytest.mark.parametrize("data_set", [MNIST_MINI, FASHION_MNIST], ids=str)
def test_ranges_of_both_sets_are_told_apart(data_set: DataSet) -> None:
    shades = data_set.shades
    assert shades
    ranges = {
        "clip them": (-0.2, 1.2),
        "pass .images . 1. / 2": (-1, 1),
        "take their normalisation": (
            -shades.mean / shades.deviation,
            (1 - shades.mean) / shades.deviation,
        ),
    }
    for advice, (low, high) in ranges.items():
        with pytest.raises(UsageError, match=f"; {advice}"):
            as_batch(np.linspace(low, high, 28 * 28).reshape(28, 28), like=data_set)


def test_what_no_change_mends_gets_no_advice(lenet: LoadedNetwork) -> None:
    for odd in (np.full((28, 28), 1.02), np.eye(28) * 1e30, np.eye(28) * 2 - 40):
        with pytest.raises(UsageError, match=r"must be from 0 to 1, got \S+ to \S+$"):
            lenet.predict(odd)


@pytest.mark.parametrize("method", ["predict", "scores", "reconstruct"])
def test_inverted_images_are_classified_with_a_word_at_the_caller(
    exports: dict[str, Path], images: NDArray[np.uint8], method: str
) -> None:
    network = load_network(exports["small-capsnet"])
    call = getattr(network, method)
    forms = [(255 - images, "255"), (1 - images / 255, "1"), (255 - images[0], "255")]
    for form, white in forms:
        with pytest.warns(UserWarning, match=f"{INVERTED}{white} - images$") as caught:
            call(form)
        assert [warning.filename for warning in caught] == [__file__]
    mixed = np.concatenate([images[:9], 255 - images[9:12]])
    some = INVERTED.replace("got dark", "got 3 of 12 dark") + "255 - images of these$"
    with pytest.warns(UserWarning, match=some):
        call(mixed)


def test_a_palette_is_no_shade(lenet: LoadedNetwork, images: NDArray[np.uint8]) -> None:
    grey = Image.fromarray(images[0])
    assert lenet.predict(grey) == lenet.predict(images[0])
    with pytest.raises(UsageError, match=r"got one with a palette; convert it, as in image\.conv"):
        lenet.predict(grey.convert("RGB").quantize(16))


def test_tensors_of_other_kinds(lenet: LoadedNetwork, images: NDArray[np.uint8]) -> None:
    given = torch.from_numpy(images[:5])
    assert np.array_equal(lenet.predict(given.to_sparse()), lenet.predict(given))
    with pytest.raises(UsageError, match=r"a tensor with values, got a torch\.strided on meta$"):
        lenet.predict(given.to("meta"))


def test_black_images_are_classified_with_a_word(
    lenet: LoadedNetwork, images: NDArray[np.uint8]
) -> None:
    floats = images / 255
    # The last are floats below 1 that became whole numbers.
    forms = [(floats * 0, "1"), (floats / 255, "1"), ((floats * 0.99).astype(np.uint8), "255")]
    for form, white in forms:
        with pytest.warns(UserWarning, match=BLACK.format(white)):
            lenet.predict(form)


def test_no_image_of_the_data_gets_a_word_and_every_inverted_one_does() -> None:
    for image in MNIST_MINI.load(folder=None).train_images[::7]:
        as_batch(image, like=MNIST_MINI)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            as_batch(255 - image, like=MNIST_MINI)
        assert len(caught) == 1
    # Noise is neither; and none is no image.
    as_batch(np.random.default_rng(0).random((28, 28)), like=MNIST_MINI)
    as_batch(np.zeros((0, 28, 28)), like=MNIST_MINI)


def test_the_card_says_what_the_images_of_the_training_are_like(lenet: LoadedNetwork) -> None:
    assert lenet.facts["preprocessing"]["training_images"] == {
        "mean": 0.1313,
        "deviation": 0.3086,
        "border": 0.0001,
    }
