"""What the files of a checkpoint are called and hold, none of it pickled.

``epoch-0003.claim-2.weights.safetensors`` holds the network alone (the best epoch's stays for
good); ``epoch-0003.claim-2.state.safetensors`` the optimiser, and in its metadata the figures of
all epochs so far and the hits of the best one. There is no random state to keep: order and shifts
of an epoch follow from seed and epoch.

``epoch-0004.claim-2.progress.safetensors`` holds all of this in one file, from the middle of epoch
4, with the figures of the epochs before it, seconds included.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from torch import Tensor

from fastrcaps_search.errors import CheckpointError
from fastrcaps_search.metrics import EpochMetrics, RunResult, RunSetting

FORMAT = "fastrcaps-checkpoint-3"
FILE_NAME = re.compile(
    r"\.?epoch-\d{4,}\.claim-(\d+)\.(?:weights|state|progress)\.safetensors"
    r"(?:\.[0-9a-f]{8}\.part)?"
)
Metadata = dict[str, str]


class Part(StrEnum):
    """What a file holds."""

    WEIGHTS = "weights"
    STATE = "state"
    PROGRESS = "progress"


PARTS = (Part.WEIGHTS, Part.STATE)
"""The two files of a checkpoint."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A run after an epoch.

    Attributes:
        network: State of the network by parameter name.
        optimiser: State of the optimiser: ``<quantity>.<parameter name>``.
        epochs: Figures of all epochs so far, in order.
        hits: Which evaluation images the best of them has right, as in ``RunResult``.
    """

    network: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    epochs: tuple[EpochMetrics, ...]
    hits: bytes = b""


@dataclass(frozen=True, slots=True)
class Progress:
    """A run within an epoch.

    Attributes:
        state: Network and optimiser as they are, with the figures of the epochs before.
        sums: What ``TrainedNetwork.sums`` gave.
        samples: Images of the epoch that are trained.
        seconds: For which they were trained, none of it suspended.
        sharing: Workers that shared the device meanwhile.
        setting: Where.
    """

    state: Checkpoint
    sums: Tensor
    samples: int
    seconds: float
    sharing: int
    setting: RunSetting


def file_name(epoch: int, claim: int, part: Part) -> str:
    """What a file of a claim is called."""
    return f"epoch-{epoch:04d}.claim-{claim}.{part}.safetensors"


def is_progress(name: str) -> bool:
    """Whether a file was written in the middle of an epoch."""
    return name.endswith(f".{Part.PROGRESS}.safetensors")


def best_epoch(epochs: Sequence[EpochMetrics]) -> int:
    """The epoch whose weights are kept for good."""
    return RunResult.from_epochs(epochs, parameters=0).best_epoch


def state_metadata(checkpoint: Checkpoint) -> Metadata:
    """What stands beside the optimiser."""
    return {"epochs": _figures(checkpoint.epochs), "hits": checkpoint.hits.hex()}


def read_state(metadata: Metadata, epoch: int) -> tuple[tuple[EpochMetrics, ...], bytes]:
    """Figures and hits of a state after ``epoch``.

    Raises:
        KeyError, TypeError, ValueError, RecursionError: They are not there, or no such.
    """
    epochs = tuple(map(EpochMetrics.from_dict, json.loads(metadata["epochs"])))
    if [metrics.epoch for metrics in epochs] != list(range(1, epoch + 1)):
        raise ValueError("epochs are missing")
    return epochs, bytes.fromhex(metadata["hits"])


def progress_marks(epochs: Sequence[EpochMetrics], setting: RunSetting) -> Metadata:
    """What tells whether a progress goes on from these very epochs, under this setting."""
    return {
        "epochs": _figures(epochs),
        "setting": json.dumps(asdict(setting), sort_keys=True),
    }


def progress_content(progress: Progress) -> tuple[dict[str, Tensor], Metadata]:
    """What the file of a progress holds."""
    state = progress.state
    tensors = {
        "sums": progress.sums,
        **{f"network.{name}": tensor for name, tensor in state.network.items()},
        **{f"optimiser.{name}": tensor for name, tensor in state.optimiser.items()},
    }
    return tensors, {
        **progress_marks(state.epochs, progress.setting),
        "samples": str(progress.samples),
        "seconds": repr(progress.seconds),
        "sharing": str(progress.sharing),
    }


def read_progress(
    tensors: Mapping[str, Tensor],
    metadata: Metadata,
    before: Checkpoint | None,
    setting: RunSetting,
) -> Progress:
    """The progress that a file holds, which goes on from a checkpoint.

    Raises:
        KeyError, ValueError: Something is missing, or is no such number.
    """
    epochs, hits = ((), b"") if before is None else (before.epochs, before.hits)
    state = Checkpoint(
        _prefixed("network.", tensors), _prefixed("optimiser.", tensors), epochs, hits
    )
    samples, sharing = int(metadata["samples"]), int(metadata["sharing"])
    seconds = float(metadata["seconds"])
    if samples < 0 or sharing < 1 or not 0.0 <= seconds < math.inf:
        raise ValueError("a number is out of range")
    return Progress(state, tensors["sums"], samples, seconds, sharing, setting)


def require_fit(found: Mapping[str, Tensor], network: Mapping[str, Tensor]) -> None:
    """Make sure that read tensors have the names, shapes and types of those in ``network``.

    Raises:
        CheckpointError: They differ.
    """
    for name in sorted(found.keys() | network.keys()):
        got, expected = (
            f"{tensors[name].dtype} {list(tensors[name].shape)}" if name in tensors else "none"
            for tensors in (found, network)
        )
        if got != expected:
            raise CheckpointError(
                f"the checkpoint must fit the network: {name} must be {expected}, got {got}"
            )


def _figures(epochs: Sequence[EpochMetrics]) -> str:
    return json.dumps([asdict(metrics) for metrics in epochs])


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors whose names begin so, by the rest of their names."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
