"""The space of a search: which values each parameter may take."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from fastrcaps_search.definition import checks
from fastrcaps_search.definition.choices import BatchPolicy, Decoder, LrPolicy
from fastrcaps_search.definition.parameters import PARAMETER_CHECKS, TrialParameters
from fastrcaps_search.errors import DefinitionError

RATES = ("lr_max", "lr_min", "decay_rate")
"""Parameters that a space gives as a range (log scale); of the others it lists the choices."""


def replaced_keys(space: Collection[str]) -> set[str]:
    """Keys whose value in a study means nothing beside these keys of its space.

    Not ``batch_size``: beside choices, the study's is still the unit of a decay's step where the
    batch adapts, and the batch of a range test.
    """
    return set(space) - {"batch_size"}


@dataclass(frozen=True, slots=True)
class Space:
    """Choices of a search.

    Attributes:
        lr_policy: Learning-rate policies.
        batch_policy: Batch-size policies.
        adabatch_exponent: Values of P.
        decoder: Decoders; empty for a network without capsules.
        weight_sharing: Weight sharing; empty for a network without capsules.
        reconstruction_weight: Weights of the reconstruction loss, or ``None`` where fixed.
        lr_max: Range of the highest learning rate (log scale), or ``None`` where fixed.
        lr_min: Range of the lowest learning rate (log scale), or ``None`` where fixed.
        batch_size: Sizes of a constant batch, or ``None`` where fixed.
        epochs: Lengths of training in epochs, or ``None`` where fixed.
        decay_rate: Range of the factor of a decay (log scale), or ``None`` where fixed.
        decay_steps: Steps in which a rate falls by that factor, or ``None`` where fixed.
        cycle_epochs: Epochs of the first cycle of restarts, or ``None`` where fixed.
        cycle_growth: Growths of the cycles, or ``None`` where fixed.
    """

    lr_policy: tuple[LrPolicy, ...]
    batch_policy: tuple[BatchPolicy, ...]
    adabatch_exponent: tuple[int, ...]
    decoder: tuple[Decoder, ...] = ()
    weight_sharing: tuple[bool, ...] = ()
    reconstruction_weight: tuple[float, ...] | None = None
    lr_max: tuple[float, float] | None = None
    lr_min: tuple[float, float] | None = None
    batch_size: tuple[int, ...] | None = None
    epochs: tuple[int, ...] | None = None
    decay_rate: tuple[float, float] | None = None
    decay_steps: tuple[int, ...] | None = None
    cycle_epochs: tuple[int, ...] | None = None
    cycle_growth: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for key in PARAMETER_CHECKS:
            value = getattr(self, key)
            # An empty choice is refused but for the capsules, which a network may not have.
            if value is not None and (value != () or key not in ("decoder", "weight_sharing")):
                object.__setattr__(self, key, _checked(key, value))

    @property
    def is_finite(self) -> bool:
        """Whether the configurations can be counted."""
        return all(getattr(self, key) is None for key in RATES)

    def to_dict(self) -> dict[str, Any]:
        """JSON values of the keys that are set."""
        values = {name: getattr(self, name) for name in PARAMETER_CHECKS}
        return {
            key: [item if isinstance(item, bool | int | float) else str(item) for item in value]
            for key, value in values.items()
            if value
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Space:
        """A checked space from the ``[space]`` table of a study file.

        Raises:
            DefinitionError: An unknown key, an empty list, a value outside its range.
        """
        checks.known_keys(values, PARAMETER_CHECKS, prefix="space.")
        found = {key: _checked(key, value) for key, value in values.items()}
        for key in ("lr_policy", "batch_policy", "adabatch_exponent"):
            found.setdefault(key, DEFAULTS[key])
        return cls(**found)

    def _capsule_choices(self) -> Iterator[dict[str, Any]]:
        weights: tuple[float | None, ...] = self.reconstruction_weight or (None,)
        for decoder, sharing in product(self.decoder or (None,), self.weight_sharing or (None,)):
            for weight in (None,) if decoder is Decoder.NONE else weights:
                yield {
                    "decoder": decoder,
                    "weight_sharing": sharing,
                    "reconstruction_weight": weight,
                }

    def _curves(
        self, lr_policy: LrPolicy, rates: Mapping[str, float]
    ) -> Iterator[dict[str, float]]:
        """Every choice of the parameters that shape the policy's curve."""
        listed = {key: getattr(self, key) for key in lr_policy.settings if key not in RATES}
        offered = listed | {key: (rate,) for key, rate in rates.items()}
        used = {key: offered[key] for key in lr_policy.settings if offered.get(key)}
        for chosen in product(*used.values()):
            yield dict(zip(used, chosen, strict=True))

    def parameters(
        self,
        *,
        boundaries_within: Callable[[int | None], Collection[int]],
        rates: Mapping[str, float] | None = None,
    ) -> Iterator[TrialParameters]:
        """Every assignment of the discrete parameters, in a fixed order.

        Args:
            boundaries_within: Boundaries below the last of so many epochs (``None``: those of the
                study); P matters where there are any.
            rates: The rates where the space varies them; those a policy does not use are left out.
        """
        for lr_policy in self.lr_policy:
            for capsules, curve, epochs in product(
                self._capsule_choices(),
                self._curves(lr_policy, rates or {}),
                self.epochs or (None,),
            ):
                common = {**capsules, "epochs": epochs, **curve}
                exponents = self.adabatch_exponent if boundaries_within(epochs) else (None,)
                yield from self._batches(lr_policy, exponents, common)

    def _batches(
        self, lr_policy: LrPolicy, exponents: tuple[int | None, ...], common: dict[str, Any]
    ) -> Iterator[TrialParameters]:
        """Every way in which the batch size may go with the other parameters."""
        if lr_policy is LrPolicy.WARM_ADABATCH:
            for exponent in exponents:
                yield TrialParameters(lr_policy, adabatch_exponent=exponent, **common)
            return
        if BatchPolicy.CONSTANT in self.batch_policy:
            for size in self.batch_size or (None,):
                yield TrialParameters(lr_policy, BatchPolicy.CONSTANT, batch_size=size, **common)
        if BatchPolicy.ADABATCH in self.batch_policy:
            for exponent in exponents:
                yield TrialParameters(lr_policy, BatchPolicy.ADABATCH, exponent, **common)


def _checked(name: str, value: object) -> tuple[Any, ...]:
    """What the key ``name`` of a space holds, checked."""
    key = f"space.{name}"
    if name in RATES:
        return _range(value, key, PARAMETER_CHECKS[name])
    return checks.choices(value, key, PARAMETER_CHECKS[name])


def _range(value: object, key: str, one: Callable[[object, str], float]) -> tuple[float, float]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise DefinitionError(
            f"must be a range [lowest, highest], got {checks.shown(value)}", key=key
        )
    low, high = (one(item, key) for item in value)
    if low >= high:
        raise DefinitionError(
            f"must rise from lowest to highest, got {checks.shown(value)}", key=key
        )
    return low, high


DEFAULTS: dict[str, tuple[Any, ...]] = {
    "lr_policy": tuple(p for p in LrPolicy if p is not LrPolicy.POLYNOMIAL_RESTARTS),
    "batch_policy": tuple(BatchPolicy),
    "adabatch_exponent": (2, 3, 4, 5, 6, 7),
    "decoder": (Decoder.FULL, Decoder.REDUCED),
    "weight_sharing": (False, True),
}
"""Choices of the shipped ``mnist`` study, used for keys that a study file leaves out."""
