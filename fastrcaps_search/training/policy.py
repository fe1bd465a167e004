"""A trial's parameters resolved into what the training loop follows: sizes and rates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastrcaps_search.definition.choices import (
    Decoder,
    LrPolicy,
    Network,
    Precision,
    RoutingGradient,
)
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.training import schedules
from fastrcaps_search.training.schedules import RateSchedule


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

    network: Network
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
    sizes, largest = _batch_sizes(definition, parameters), definition.split_size
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
        batch_sizes=tuple(min(size, largest) for size in sizes),
        rates=_rates(definition, parameters),
        samples=largest,
        shifts=definition.shifts,
        precision=definition.precision,
    )


def _batch_sizes(definition: StudyDefinition, parameters: TrialParameters) -> list[int]:
    epochs = definition.epochs_of(parameters)
    if not parameters.adapts_batch:
        return [definition.setting(parameters, "batch_size")] * epochs
    boundaries = definition.boundaries_within(epochs)
    if parameters.lr_policy is LrPolicy.WARM_ADABATCH:
        boundaries = boundaries[:1]
    return schedules.adabatch_sizes(
        epochs, boundaries=boundaries, exponent=parameters.adabatch_exponent
    )


def _rates(definition: StudyDefinition, parameters: TrialParameters) -> RateSchedule:
    def setting(key: str) -> Any:  # noqa: ANN401  # of that key
        return definition.setting(parameters, key)

    samples, epochs = definition.split_size, definition.epochs_of(parameters)
    total = samples * epochs
    rates = {key: setting(key) for key in ("lr_max", "lr_min")}
    lengths = schedules.cycle_lengths(
        epochs, first=setting("cycle_epochs"), growth=setting("cycle_growth")
    )
    cycles = [samples * length for length in lengths]
    # WarmAdaBatch restarts with each of its two batch-size phases, of which the second may keep
    # batch 1 (P = 0): the phases come from the boundary, not from the sizes.
    first = definition.boundaries_within(epochs)[:1]
    phases = [samples * length for length in (*first, epochs - sum(first))]
    build: dict[LrPolicy, Callable[[], RateSchedule]] = {
        LrPolicy.FIXED: lambda: schedules.fixed(total, lr_max=rates["lr_max"]),
        LrPolicy.EXPONENTIAL_DECAY: lambda: schedules.exponential_decay(
            total,
            lr_max=rates["lr_max"],
            batch_size=setting("batch_size"),
            decay_rate=setting("decay_rate"),
            decay_steps=setting("decay_steps"),
        ),
        LrPolicy.ONE_CYCLE: lambda: schedules.one_cycle(total, **rates),
        LrPolicy.WARM_RESTARTS: lambda: schedules.cosine_cycles(cycles, **rates),
        LrPolicy.WARM_ADABATCH: lambda: schedules.cosine_cycles(phases, **rates),
        LrPolicy.POLYNOMIAL_RESTARTS: lambda: schedules.polynomial_restarts(
            cycles, **rates, power=definition.polynomial_power
        ),
    }
    return build[parameters.lr_policy]()
