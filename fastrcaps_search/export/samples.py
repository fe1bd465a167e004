"""What people look at first: mistakes, reconstructions, and what each capsule dimension does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fastrcaps_search.capsnet.layers import CLASS_SIZE, CapsuleDecoder
from fastrcaps_search.capsnet.network import CapsNet
from fastrcaps_search.data.data_set import CLASSES, IMAGE_SIDE
from fastrcaps_search.export.accuracy import Measurement
from fastrcaps_search.export.images import as_batch
from fastrcaps_search.export.loader import LoadedNetwork

MOST_MISTAKES = 24
IMAGES_PER_CLASS = 2
CONSIDERED = 50
"""Images of each class among which the one for its sweep is chosen."""
STEPS = 5
STEP = 0.05
OFFSETS = tuple(STEP * step for step in range(-STEPS, STEPS + 1))
"""What is added to a dimension: Sabour et al. 2017, figure 4."""

Picture = NDArray[np.uint8]


class Mistake(NamedTuple):
    """An image that was taken for another class.

    Attributes:
        number: Its place in the split, from 0.
        confidence: Of the class that was found: capsule length, or softmax of the logits.
    """

    number: int
    confidence: float


class Reconstruction(NamedTuple):
    """What the decoder makes of the capsule of the class that was found.

    Attributes:
        number: Place of the image in the split.
        picture: uint8 [28, 28].
    """

    number: int
    picture: Picture


class Sweep(NamedTuple):
    """The capsule of an image's class, decoded with each of its dimensions moved.

    Attributes:
        number: Place of the image in the split.
        length: Of the capsule.
        pictures: uint8 [16, 11, 28, 28]: dimension by offset.
    """

    number: int
    length: float
    pictures: Picture


class Samples(NamedTuple):
    """What there is to look at in a measurement; of CapsNets with a decoder more than mistakes.

    Attributes:
        mistakes: The most confident ones first.
        reconstructions: Of the first images of each class.
        sweeps: One for each class that has an image classified right.
    """

    mistakes: tuple[Mistake, ...]
    reconstructions: tuple[Reconstruction, ...] = ()
    sweeps: tuple[Sweep, ...] = ()


def gather_samples(loaded: LoadedNetwork, measured: Measurement) -> Samples:
    """Gather what there is to look at."""
    mistakes = tuple(_mistakes(loaded, measured))
    network = loaded.network.eval()
    if not isinstance(network, CapsNet) or network.decoder is None:
        return Samples(mistakes)
    decoder = network.decoder
    reconstructions = tuple(_reconstructions(network, decoder, measured))
    return Samples(mistakes, reconstructions, tuple(_sweeps(network, decoder, measured)))


def _mistakes(loaded: LoadedNetwork, measured: Measurement) -> Iterator[Mistake]:
    wrong = np.flatnonzero(measured.predicted != measured.labels)
    scores = loaded.scores(measured.images[wrong])
    if not isinstance(loaded.network, CapsNet):
        scores = torch.from_numpy(scores).softmax(dim=1).numpy()
    confidence = scores[np.arange(len(wrong)), measured.predicted[wrong]]
    for place in np.argsort(-confidence, kind="stable")[:MOST_MISTAKES]:
        yield Mistake(int(wrong[place]), float(confidence[place]))


def _reconstructions(
    network: CapsNet, decoder: CapsuleDecoder, measured: Measurement
) -> Iterator[Reconstruction]:
    firsts = [np.flatnonzero(measured.labels == label) for label in range(CLASSES)]
    numbers = np.concatenate([found[:IMAGES_PER_CLASS] for found in firsts])
    capsules = _capsules(network, measured.images[numbers])
    pictures = _decoded(decoder, capsules, torch.from_numpy(measured.predicted[numbers]))
    return map(Reconstruction, numbers.tolist(), pictures)


def _sweeps(network: CapsNet, decoder: CapsuleDecoder, measured: Measurement) -> Iterator[Sweep]:
    right = measured.predicted == measured.labels
    for label in range(CLASSES):
        numbers = np.flatnonzero(right & (measured.labels == label))[:CONSIDERED]
        if not len(numbers):
            continue
        capsules = _capsules(network, measured.images[numbers])
        lengths = capsules[:, label].norm(dim=1)
        best = int(lengths.argmax())
        pictures = sweep(decoder, capsules[best], label=label)
        yield Sweep(int(numbers[best]), float(lengths[best]), pictures)


def sweep(decoder: CapsuleDecoder, capsules: Tensor, *, label: int) -> Picture:
    """Pictures uint8 [16, 11, 28, 28] of one capsule, each dimension moved by each offset.

    Args:
        decoder: The network's.
        capsules: Class capsules [10, 16] of one image.
        label: Class whose capsule is moved and decoded.
    """
    moved = capsules.repeat(CLASS_SIZE, len(OFFSETS), 1, 1)
    dimensions = torch.arange(CLASS_SIZE)
    moved[dimensions, :, label, dimensions] += moved.new_tensor(OFFSETS)
    flat = moved.flatten(end_dim=1)
    pictures = _decoded(decoder, flat, torch.tensor([label] * len(flat)))
    return pictures.reshape(CLASS_SIZE, len(OFFSETS), IMAGE_SIDE, IMAGE_SIDE)


@torch.no_grad()
def _capsules(network: CapsNet, images: Picture) -> Tensor:
    device = next(network.parameters()).device
    return network.capsules(as_batch(images)[0].to(device))


@torch.no_grad()
def _decoded(decoder: CapsuleDecoder, capsules: Tensor, chosen: Tensor) -> Picture:
    """Pictures uint8 [B, 28, 28] of the chosen one among capsules [B, 10, 16]."""
    shades = decoder(capsules, chosen.to(capsules.device)) * 255
    pictures = shades.round().to(torch.uint8).view(-1, IMAGE_SIDE, IMAGE_SIDE)
    return np.asarray(pictures.cpu().numpy())
