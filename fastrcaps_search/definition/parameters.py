"""One trial's parameters: typed, checked, and only those that apply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from fastrcaps_search.definition import checks
from fastrcaps_search.definition.choices import BatchPolicy, Decoder, LrPolicy
from fastrcaps_search.errors import DefinitionError

EXPONENT_RANGE = (0, 10)
"""Smallest and largest AdaBatch exponent P that a study may name."""

LARGEST_RATE = 1.0
LARGEST_BATCH = 65_536


@dataclass(frozen=True, slots=True)
class TrialParameters:
    """One assignment of the space's parameters.

    A parameter that does not apply is ``None``: the batch policy of ``warm_adabatch``, the
    exponent of a constant batch, the decoder of LeNet5, a rate that the study fixes.

    Attributes:
        lr_policy: Learning-rate policy.
        batch_policy: Batch-size policy.
        adabatch_exponent: P of AdaBatch (FasTrCaps, algorithms 3 and 4).
        decoder: Decoder input.
        weight_sharing: One class-capsule weight per capsule type over its positions.
        lr_max: Highest learning rate, where the space varies it.
        lr_min: Lowest learning rate, where the space varies it.
        batch_size: Batch size, where the space varies it.
    """

    lr_policy: LrPolicy
    batch_policy: BatchPolicy | None = None
    adabatch_exponent: int | None = None
    decoder: Decoder | None = None
    weight_sharing: bool | None = None
    lr_max: float | None = None
    lr_min: float | None = None
    batch_size: int | None = None

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
    def policy(self) -> str:
        """The pair of schedules in one word, as tables and legends show it."""
        if self.batch_policy is BatchPolicy.ADABATCH:
            return f"{self.lr_policy}+adabatch"
        return str(self.lr_policy)

    @property
    def described(self) -> str:
        """The policy, with the rates and the batch size where the space varies them."""
        varied = {"lr_max": self.lr_max, "lr_min": self.lr_min, "batch": self.batch_size}
        found = [f"{key}={value:.3g}" for key, value in varied.items() if value is not None]
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
        checks.known_keys(dict(values), PARAMETER_CHECKS, prefix=prefix)
        if "lr_policy" not in values:
            raise DefinitionError("must be given", key=f"{prefix}lr_policy")
        return cls(
            **{
                key: PARAMETER_CHECKS[key](value, f"{prefix}{key}")
                for key, value in values.items()
            }
        )


def _exponent(value: object, key: str) -> int:
    return checks.integer(value, key, low=EXPONENT_RANGE[0], high=EXPONENT_RANGE[1])


def _rate(value: object, key: str) -> float:
    return checks.number(value, key, above=0.0, high=LARGEST_RATE)


def _batch_size(value: object, key: str) -> int:
    return checks.integer(value, key, low=1, high=LARGEST_BATCH)


PARAMETER_CHECKS: dict[str, Any] = {
    "lr_policy": lambda value, key: checks.choice(value, key, LrPolicy),
    "batch_policy": lambda value, key: checks.choice(value, key, BatchPolicy),
    "adabatch_exponent": _exponent,
    "decoder": lambda value, key: checks.choice(value, key, Decoder),
    "weight_sharing": checks.boolean,
    "lr_max": _rate,
    "lr_min": _rate,
    "batch_size": _batch_size,
}
"""Check of one value of each parameter: ``(value, key) -> typed value``."""

PARAMETER_NAMES = tuple(PARAMETER_CHECKS)
"""Every parameter, in the order of tables."""
