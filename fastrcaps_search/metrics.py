"""What training emits and the store keeps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_type_hints


@dataclass(frozen=True, slots=True)
class EpochMetrics:
    """Figures of one epoch of one run.

    Attributes:
        epoch: From 1.
        batch_size: Size of its batches but the last, short one.
        lr_start: Learning rate of its first step.
        lr_end: Learning rate of its last step.
        loss: Mean training loss per image.
        classification_loss: Its margin (or cross-entropy) part.
        reconstruction_loss: Its reconstruction part, already scaled.
        training_accuracy: Fraction of training images right at the time of their step.
        accuracy: Fraction right on the evaluation split after the epoch.
        training_seconds: From its first step to the last device synchronisation.
        evaluation_seconds: Of the evaluation, which is not part of training.
        steps: Optimiser updates.
        samples: Training images seen.
    """

    epoch: int
    batch_size: int
    lr_start: float
    lr_end: float
    loss: float
    classification_loss: float
    reconstruction_loss: float
    training_accuracy: float
    accuracy: float
    training_seconds: float
    evaluation_seconds: float
    steps: int
    samples: int

    @property
    def is_finite(self) -> bool:
        """Whether loss and accuracy are finite."""
        return math.isfinite(self.loss) and math.isfinite(self.accuracy)

    @classmethod
    def from_dict(cls, figures: object) -> EpochMetrics:
        """Figures as ``dataclasses.asdict`` gives them.

        Raises:
            ValueError: One is missing, unknown, of another type or not finite.
        """
        kinds = get_type_hints(cls)
        if not isinstance(figures, dict) or figures.keys() != kinds.keys():
            raise ValueError(f"figures must be {', '.join(kinds)}")
        for name, kind in kinds.items():
            value = figures[name]
            is_float = kind is float and isinstance(value, float) and math.isfinite(value)
            if not is_float and type(value) is not int:
                raise ValueError(f"{name} must be a finite {kind.__name__}, got {value!r}")
        return cls(**figures)


@dataclass(frozen=True, slots=True)
class RunSetting:
    """How and where a run trains; equal settings on a CPU give equal bits.

    Attributes:
        device: Kind of device: ``cpu`` or ``cuda``.
        device_name: Name of the processor or card.
        torch_version: Version of torch.
        precision: Arithmetic of the step.
        threads: Threads of torch.
        kernel: Choice of training kernels.
    """

    device: str
    device_name: str
    torch_version: str
    precision: str
    threads: int
    kernel: str


@dataclass(frozen=True, slots=True)
class RunResult:
    """The values of a run and the epoch that gave them.

    Attributes:
        accuracy: Best accuracy on the evaluation split.
        training_seconds: Sum up to and including the best epoch: as measured, or of the study's
            reference device once that is worked out.
        parameters: Learned parameters.
        best_epoch: The earliest epoch with that accuracy.
        hits: Which evaluation images its weights have right: a bit each, the first image's the
            highest of the first byte, zeros behind the last; ``None`` where it is not known.
        others: Values in further objectives of the study, by name.
        measured_seconds: The sum as measured; ``None`` where ``training_seconds`` is that.
        computed_epochs: Epochs up to the best one whose seconds were computed.
    """

    accuracy: float
    training_seconds: float
    parameters: int
    best_epoch: int
    hits: bytes | None = None
    others: Mapping[str, float] = field(default_factory=dict)
    measured_seconds: float | None = None
    computed_epochs: int = 0

    @classmethod
    def from_epochs(
        cls, epochs: Sequence[EpochMetrics], *, parameters: int, hits: bytes | None = None
    ) -> RunResult:
        """Values of a run from all its epochs, in order, and the hits of the best one.

        Raises:
            ValueError: No epochs.
        """
        best = max(epochs, key=lambda epoch: (epoch.accuracy, -epoch.epoch))
        seconds = math.fsum(e.training_seconds for e in epochs if e.epoch <= best.epoch)
        return cls(
            accuracy=best.accuracy,
            training_seconds=seconds,
            parameters=parameters,
            best_epoch=best.epoch,
            hits=hits,
        )
