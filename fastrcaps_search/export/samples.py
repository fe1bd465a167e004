"""What people look at first: mistakes, reconstructions, and what each capsule dimension does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fastrcaps_search.capsnet.decoder import CapsuleDecoder
from fastrcaps_search.capsnet.layers import CLASS_SIZE
from fastrcaps_search.capsnet.network import CapsNet
from fastrcaps_search.definition.data_facts import CLASSES, IMAGE_SIDE
from fastrcaps_search.export.accuracy import Measurement
from fastrcaps_search.export.loader import LoadedNetwork
from fastrcaps_search.export.preprocessing import as_batch

MOST_MISTAKES = 24
PAIRS_PER_CLASS = 2
CONSIDERED = 50
"""Images of each class among which the one for its sweep is chosen."""
STEPS = 5
STEP = 0.05
OFFSETS = tuple(STEP * step for step in range(-STEPS, STEPS + 1))
"""What is added to a dimension: Sabour et al. 2017, figure 4."""

Picture = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Mistake:
    """An image that was taken for another class.

    Attributes:
        number: Its place in the split, from 0.
        image: uint8 [28, 28].
        label: Its class.
        predicted: The class that was found.
        confidence: Of that class: capsule length, or softmax of the logits.
    """

    number: int
    image: Picture
    label: int
    predicted: int
    confidence: float


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """An image and what the decoder makes of the capsule of the class that was found."""

    image: Picture
    reconstruction: Picture
    label: int
    predicted: int


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """One capsule, decoded with each of its dimensions moved.

    Attributes:
        label: Class of image and capsule.
        image: uint8 [28, 28].
        length: Of the capsule.
        pictures: uint8 [16, 11, 28, 28]: dimension by offset.
    """

    label: int
    image: Picture
    length: float
    pictures: NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """What there is to look at; pairs and sweeps of CapsNets with a decoder alone.

    Attributes:
        mistakes: The most confident ones first.
        pairs: The first images of each class.
        sweeps: One for each class that has an image classified right.
    """

    mistakes: tuple[Mistake, ...]
    pairs: tuple[Pair, ...] = ()
    sweeps: tuple[Sweep, ...] = ()


def gather_samples(loaded: LoadedNetwork, measured: Measurement) -> Samples:
    """Gather what there is to look at."""
    mistakes = tuple(_mistakes(loaded, measured))
    if not isinstance(loaded.network, CapsNet) or loaded.network.decoder is None:
        return Samples(mistakes)
    network, decoder = loaded.network.eval(), loaded.network.decoder
    pairs, sweeps = _pairs(network, decoder, measured), _sweeps(network, decoder, measured)
    return Samples(mistakes, tuple(pairs), tuple(sweeps))


def _mistakes(loaded: LoadedNetwork, measured: Measurement) -> list[Mistake]:
    wrong = np.flatnonzero(measured.predicted != measured.labels)
    if not len(wrong):
        return []
    scores = torch.from_numpy(loaded.scores(measured.images[wrong]))
    if not isinstance(loaded.network, CapsNet):
        scores = scores.softmax(dim=1)
    predicted = torch.from_numpy(measured.predicted[wrong])
    confidence = scores.gather(1, predicted[:, None])[:, 0].numpy()
    order = np.argsort(-confidence, kind="stable")[:MOST_MISTAKES]
    return [
        Mistake(
            number=int(wrong[place]),
            image=measured.images[wrong[place]],
            label=int(measured.labels[wrong[place]]),
            predicted=int(measured.predicted[wrong[place]]),
            confidence=float(confidence[place]),
        )
        for place in order
    ]


def _pairs(network: CapsNet, decoder: CapsuleDecoder, measured: Measurement) -> Iterator[Pair]:
    firsts = [np.flatnonzero(measured.labels == label) for label in range(CLASSES)]
    numbers = np.concatenate([found[:PAIRS_PER_CLASS] for found in firsts])
    predicted = measured.predicted[numbers]
    capsules = _capsules(network, measured.images[numbers])
    pictures = _decoded(decoder, capsules, torch.from_numpy(predicted))
    for number, found, picture in zip(numbers, predicted, pictures, strict=True):
        label = int(measured.labels[number])
        yield Pair(measured.images[number], picture, label, int(found))


def _sweeps(network: CapsNet, decoder: CapsuleDecoder, measured: Measurement) -> Iterator[Sweep]:
    right = measured.predicted == measured.labels
    for label in range(CLASSES):
        numbers = np.flatnonzero(right & (measured.labels == label))[:CONSIDERED]
        if not len(numbers):
            continue
        capsules = _capsules(network, measured.images[numbers])
        lengths = capsules[:, label].norm(dim=1)
        best = int(lengths.argmax())
        yield Sweep(
            label=label,
            image=measured.images[numbers[best]],
            length=float(lengths[best]),
            pictures=sweep(decoder, capsules[best], label=label),
        )


def sweep(decoder: CapsuleDecoder, capsules: Tensor, *, label: int) -> NDArray[np.uint8]:
    """Pictures uint8 [16, 11, 28, 28] of one capsule, each dimension moved by each offset.

    Args:
        decoder: The network's.
        capsules: Class capsules [10, 16] of one image.
        label: Class whose capsule is moved and decoded.
    """
    count = CLASS_SIZE * len(OFFSETS)
    moved = capsules.repeat(count, 1, 1).view(CLASS_SIZE, len(OFFSETS), *capsules.shape)
    offsets = torch.tensor(OFFSETS, dtype=capsules.dtype, device=capsules.device)
    for dimension in range(CLASS_SIZE):
        moved[dimension, :, label, dimension] += offsets
    pictures = _decoded(decoder, moved.view(count, *capsules.shape), torch.tensor([label] * count))
    return pictures.reshape(CLASS_SIZE, len(OFFSETS), IMAGE_SIDE, IMAGE_SIDE)


@torch.no_grad()
def _capsules(network: CapsNet, images: NDArray[np.uint8]) -> Tensor:
    device = next(network.parameters()).device
    return network.capsules(as_batch(images)[0].to(device))


@torch.no_grad()
def _decoded(decoder: CapsuleDecoder, capsules: Tensor, chosen: Tensor) -> NDArray[np.uint8]:
    """Pictures uint8 [B, 28, 28] of the chosen one among capsules [B, 10, 16]."""
    shades = decoder(capsules, chosen.to(capsules.device)) * 255
    pictures = shades.round().to(torch.uint8).view(-1, IMAGE_SIDE, IMAGE_SIDE)
    return np.asarray(pictures.cpu().numpy())
