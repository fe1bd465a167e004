"""The space of a search: which values each parameter may take."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastrcaps_search.definition import checks
from fastrcaps_search.definition.batch_policies import BATCH_POLICIES
from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.definition.lr_policies import LR_POLICIES
from fastrcaps_search.definition.networks import Network
from fastrcaps_search.definition.parameters import TRIAL_PARAMETERS, Keyed, TrialParameters

NETWORK_KEYS = ("decoder", "weight_sharing")
"""Parameters of the network itself, which each network has or has not."""


def replaced_keys(space: Collection[str]) -> set[str]:
    """Keys whose value in a study means nothing beside these keys of its space.

    Not ``batch_size``: beside choices, the study's is still the unit of a decay's step where the
    batch adapts, and the batch of a range test.
    """
    return set(space) - {"batch_size"}


@dataclass(frozen=True, slots=True)
class Space(Keyed):
    """Choices of a search.

    Attributes:
        lr_policy: Learning-rate policies.
        batch_policy: Batch-size policies.
        adabatch_exponent: Values of P.
        decoder: Decoders, or ``None`` for a network without capsules.
        weight_sharing: Weight sharing, or ``None`` for a network without capsules.
        reconstruction_weight: Weights of the reconstruction loss, or ``None`` where fixed.
        lr_max: Range of the highest learning rate (log scale), or ``None`` where fixed.
        lr_min: Range of the lowest learning rate (log scale), or ``None`` where fixed.
        batch_size: Sizes of a constant batch, or ``None`` where fixed.
        epochs: Lengths of training in epochs, or ``None`` where fixed.
        decay_rate: Range of the factor of a decay (log scale), or ``None`` where fixed.
        decay_steps: Steps in which a rate falls by that factor, or ``None`` where fixed.
        cycle_epochs: Epochs of the first cycle of restarts, or ``None`` where fixed.
        cycle_growth: Growths of the cycles, or ``None`` where fixed.
        own: Ranges or choices of the parameters that plug-ins bring, by name.
    """

    lr_policy: tuple[str, ...]
    batch_policy: tuple[str, ...]
    adabatch_exponent: tuple[int, ...]
    decoder: tuple[Decoder, ...] | None = None
    weight_sharing: tuple[bool, ...] | None = None
    reconstruction_weight: tuple[float, ...] | None = None
    lr_max: tuple[float, float] | None = None
    lr_min: tuple[float, float] | None = None
    batch_size: tuple[int, ...] | None = None
    epochs: tuple[int, ...] | None = None
    decay_rate: tuple[float, float] | None = None
    decay_steps: tuple[int, ...] | None = None
    cycle_epochs: tuple[int, ...] | None = None
    cycle_growth: tuple[int, ...] | None = None
    own: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        self._take(
            {
                each.name: each.check_offered(self[each.name], f"space.{each.name}")
                for each in TRIAL_PARAMETERS
                if self[each.name] is not None
            }
        )

    @property
    def is_finite(self) -> bool:
        """Whether the configurations can be counted."""
        return not any(self[each.name] for each in TRIAL_PARAMETERS if each.is_range)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, network: Network | None = None) -> Space:
        """A checked space from the ``[space]`` table of a study file.

        Args:
            values: The table; what it leaves out is as in the shipped ``mnist`` study.
            network: Whose parameters are among that.

        Raises:
            DefinitionError: An unknown key, an empty list, a value outside its range.
        """
        checks.known_keys(values, TRIAL_PARAMETERS.names, prefix="space.")
        left_out: dict[str, tuple[Any, ...]] = {
            "lr_policy": tuple(each.name for each in LR_POLICIES if each.by_default),
            "batch_policy": tuple(each.name for each in BATCH_POLICIES if each.by_default),
        }
        absent = {*NETWORK_KEYS} - {*(network.settings if network else ())}
        for each in TRIAL_PARAMETERS:
            if each.choices and each.name not in absent:
                left_out[each.name] = each.choices
        return cls.of({**left_out, **values})

    def parameters(
        self,
        *,
        boundaries_within: Callable[[int | None], Sequence[int]],
        rates: Mapping[str, float] | None = None,
    ) -> Iterator[TrialParameters]:
        """Every assignment of the discrete parameters, in a fixed order.

        Args:
            boundaries_within: Boundaries below the last of so many epochs (``None``: those of the
                study); P matters where there are any.
            rates: Values where the space has ranges; those a policy does not use are left out.
        """
        offered = {each.name: self[each.name] for each in TRIAL_PARAMETERS if not each.is_range}
        offered |= {name: (rate,) for name, rate in (rates or {}).items()}

        def going_on(chosen: dict[str, Any]) -> Iterator[TrialParameters]:
            for key in applying(chosen, boundaries_within):
                values = offered.get(key)
                if values and key not in chosen:
                    for value in values:
                        yield from going_on({**chosen, key: value})
                    return
            yield TrialParameters.of(chosen)

        return going_on({})


def applying(
    values: Mapping[str, Any], boundaries_within: Callable[[int | None], Sequence[int]]
) -> Iterator[str]:
    """Keys of the parameters that apply, each after those that decide whether it does.

    Args:
        values: What is chosen of the keys that came before; may be filled from key to key.
        boundaries_within: As of :meth:`Space.parameters`.
    """
    yield "lr_policy"
    yield from NETWORK_KEYS
    if values.get("decoder") != Decoder.NONE:
        yield "reconstruction_weight"
    yield "epochs"
    lr = LR_POLICIES[values["lr_policy"]]
    if lr.batch is None:
        yield "batch_policy"
    batch = lr.batch or BATCH_POLICIES[values["batch_policy"]]
    yield from batch.settings_within(boundaries_within(values.get("epochs")))
    yield from lr.settings
