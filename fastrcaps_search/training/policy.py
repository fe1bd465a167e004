"""A trial's parameters resolved into what the training loop follows: sizes and rates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from fastrcaps_search.definition import schedules
from fastrcaps_search.definition.choices import Decoder, Precision, RoutingGradient
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.schedules import Course, RateSchedule
from fastrcaps_search.definition.study import StudyDefinition


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """One training, but for its seed and device. Equal plans are the same training.

    Attributes:
        network: Network.
        decoder: Decoder input; ``None`` without capsules.
        reconstruction_weight: Weight of the reconstruction loss; ``None`` without a decoder.
        weight_sharing: Whether class-capsule weights are shared; ``None`` without capsules.
        routing_gradient: Routing iterations that the gradient flows through.
        batch_sizes: Batch size of each epoch, at most the split's size.
        rates: Learning rate by samples seen.
        samples: Training images per epoch.
        shifts: Whether images are shifted.
        precision: Arithmetic of the products.
    """

    network: str
    decoder: Decoder | None
    reconstruction_weight: float | None
    weight_sharing: bool | None
    routing_gradient: RoutingGradient
    batch_sizes: tuple[int, ...]
    rates: RateSchedule
    samples: int
    shifts: bool
    precision: Precision = Precision.FP32

    @property
    def epochs(self) -> int:
        """Epochs of the training."""
        return len(self.batch_sizes)

    def epoch_batches(self, epoch: int) -> list[int]:
        """Sizes of the batches of ``epoch`` (from 1)."""
        return schedules.batches(self.samples, self.batch_sizes[epoch - 1])

    def epoch_rates(self, epoch: int) -> list[float]:
        """Learning rate of each step of ``epoch`` (from 1)."""
        start = (epoch - 1) * self.samples
        return self.rates.epoch_rates(start, self.epoch_batches(epoch))


def training_plan(definition: StudyDefinition, parameters: TrialParameters) -> TrainingPlan:
    """Resolve ``parameters`` under the study's protocol."""
    epochs, largest = definition.epochs_of(parameters), definition.split_size
    course = Course(
        epochs=epochs,
        samples=largest,
        boundaries=definition.boundaries_within(epochs),
        setting=partial(definition.setting, parameters),
    )
    return TrainingPlan(
        network=definition.network,
        decoder=parameters.decoder,
        reconstruction_weight=(
            definition.setting(parameters, "reconstruction_weight")
            if parameters.reconstructs
            else None
        ),
        weight_sharing=parameters.weight_sharing,
        routing_gradient=definition.routing_gradient,
        batch_sizes=tuple(min(size, largest) for size in parameters.batch.sizes(course)),
        rates=parameters.lr.rates(course),
        samples=largest,
        shifts=definition.shifts,
        precision=definition.precision,
    )
