"""One trial's parameters: typed, checked, and only those that apply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from fastrcaps_search.definition import checks
from fastrcaps_search.definition.choices import BatchPolicy, Decoder, LrPolicy
from fastrcaps_search.errors import DefinitionError

EXPONENT_RANGE = (0, 10)
"""Smallest and largest AdaBatch exponent P that a study may name."""

LARGEST_RATE = 1.0
LARGEST_BATCH = 65_536
LARGEST_EPOCHS = 10_000
LARGEST_DECAY = 0.9999
"""Closer to 1, a decay is the fixed rate under another name."""
LARGEST_DECAY_STEPS = 10_000_000
LARGEST_GROWTH = 10
RECONSTRUCTION_WEIGHT = 0.0005
"""Of the squared error summed over an image: Sabour et al. 2017, section 4.1."""
LARGEST_WEIGHT = 1.0


@dataclass(frozen=True, slots=True)
class TrialParameters:
    """One assignment of the space's parameters.

    A parameter that does not apply is ``None``: the batch policy of ``warm_adabatch``, the
    exponent of a constant batch, the decoder of LeNet5, a rate that the study fixes, the
    reconstruction weight without a decoder.

    Attributes:
        lr_policy: Learning-rate policy.
        batch_policy: Batch-size policy.
        adabatch_exponent: P of AdaBatch (FasTrCaps, algorithms 3 and 4).
        decoder: Decoder input.
        weight_sharing: One class-capsule weight per capsule type over its positions.
        reconstruction_weight: Weight of the reconstruction loss, where the space varies it.
        lr_max: Highest learning rate, where the space varies it.
        lr_min: Lowest learning rate, where the space varies it.
        batch_size: Batch size, where the space varies it.
        epochs: Epochs, where the space varies them.
        decay_rate: Factor of an exponential decay, where the space varies it.
        decay_steps: Steps of the constant batch size in which the rate falls by that factor, where
            the space varies them.
        cycle_epochs: Epochs of the first cycle of restarts, where the space varies them.
        cycle_growth: How many times as long each next cycle is, where the space varies it.
    """

    lr_policy: LrPolicy
    batch_policy: BatchPolicy | None = None
    adabatch_exponent: int | None = None
    decoder: Decoder | None = None
    weight_sharing: bool | None = None
    reconstruction_weight: float | None = None
    lr_max: float | None = None
    lr_min: float | None = None
    batch_size: int | None = None
    epochs: int | None = None
    decay_rate: float | None = None
    decay_steps: int | None = None
    cycle_epochs: int | None = None
    cycle_growth: int | None = None

    def __post_init__(self) -> None:
        for key, check in PARAMETER_CHECKS.items():
            value = getattr(self, key)
            if value is not None or key == "lr_policy":
                object.__setattr__(self, key, check(value, key))

    @property
    def adapts_batch(self) -> bool:
        """Whether the batch size grows during training."""
        return (
            self.lr_policy is LrPolicy.WARM_ADABATCH or self.batch_policy is BatchPolicy.ADABATCH
        )

    @property
    def reconstructs(self) -> bool:
        """Whether a decoder is trained."""
        return self.decoder not in (None, Decoder.NONE)

    @property
    def policy(self) -> str:
        """The pair of schedules in one word, as tables and legends show it."""
        if self.batch_policy is BatchPolicy.ADABATCH:
            return f"{self.lr_policy}+adabatch"
        return str(self.lr_policy)

    @property
    def described(self) -> str:
        """The policy, with what else the space varies of its training."""
        names = [*self.lr_policy.settings, "batch_size", "epochs", "reconstruction_weight"]
        varied = {name.removesuffix("_size"): getattr(self, name) for name in names}
        found = [
            f"{name}={format(value, '.3g' if isinstance(value, float) else '')}"
            for name, value in varied.items()
            if value is not None
        ]
        return " ".join([self.policy, *found])

    def to_dict(self) -> dict[str, Any]:
        """Only the parameters that apply, as JSON values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            key: str(value) if isinstance(value, LrPolicy | BatchPolicy | Decoder) else value
            for key, value in values.items()
            if value is not None
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, prefix: str = "") -> TrialParameters:
        """Checked parameters from JSON or TOML values.

        Raises:
            DefinitionError: An unknown parameter, or a value outside its range.
        """
        checks.known_keys(values, PARAMETER_CHECKS, prefix=prefix)
        if "lr_policy" not in values:
            raise DefinitionError("must be given", key=f"{prefix}lr_policy")
        return cls(
            **{
                key: PARAMETER_CHECKS[key](value, f"{prefix}{key}")
                for key, value in values.items()
            }
        )


def above_zero(high: float) -> Callable[[object, str], float]:
    """Check of a number above 0 and at most ``high``."""
    return lambda value, key: checks.number(value, key, above=0.0, high=high)


def whole(low: int, high: int) -> Callable[[object, str], int]:
    """Check of a whole number from ``low`` to ``high``."""
    return lambda value, key: checks.integer(value, key, low=low, high=high)


PARAMETER_CHECKS: dict[str, Any] = {
    "lr_policy": lambda value, key: checks.choice(value, key, LrPolicy),
    "batch_policy": lambda value, key: checks.choice(value, key, BatchPolicy),
    "adabatch_exponent": whole(*EXPONENT_RANGE),
    "decoder": lambda value, key: checks.choice(value, key, Decoder),
    "weight_sharing": checks.boolean,
    "reconstruction_weight": lambda value, key: checks.from_zero(value, key, high=LARGEST_WEIGHT),
    "lr_max": above_zero(LARGEST_RATE),
    "lr_min": above_zero(LARGEST_RATE),
    "batch_size": whole(1, LARGEST_BATCH),
    "epochs": whole(1, LARGEST_EPOCHS),
    "decay_rate": above_zero(LARGEST_DECAY),
    "decay_steps": whole(1, LARGEST_DECAY_STEPS),
    "cycle_epochs": whole(1, LARGEST_EPOCHS),
    "cycle_growth": whole(1, LARGEST_GROWTH),
}
"""Check of one value of each parameter: ``(value, key) -> typed value``."""

PARAMETER_NAMES = tuple(PARAMETER_CHECKS)
"""Every parameter, in the order of tables."""
