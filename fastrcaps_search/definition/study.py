"""A study's definition: frozen, checked when built, the same text for the same meaning."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import product
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from fastrcaps_search.data.data_set import DataSet
from fastrcaps_search.data.shipped import DATA_SETS, MNIST
from fastrcaps_search.definition import checks, keys
from fastrcaps_search.definition.choices import Decoder, EvaluateOn, Precision, RoutingGradient
from fastrcaps_search.definition.consistency import check_consistency
from fastrcaps_search.definition.networks import CAPSNET, NETWORKS, Network
from fastrcaps_search.definition.objective import COMMON
from fastrcaps_search.definition.parameters import (
    RECONSTRUCTION_WEIGHT,
    TRIAL_PARAMETERS,
    Keyed,
    TrialParameters,
)
from fastrcaps_search.definition.samplers import SAMPLERS, TPE
from fastrcaps_search.definition.space import Space
from fastrcaps_search.errors import DefinitionError


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyDefinition(Keyed):
    """What a study asks: network, data, protocol and space.

    Attributes:
        name: Name in the database and of its folders.
        network: Network that every trial trains.
        data_set: Images that every trial trains on.
        objectives: Names of what trials are compared by.
        sampler: What proposes the next assignment.
        epochs: Epochs of one run, where the space does not vary them.
        evaluate_on: Split that gives the accuracy.
        runs_per_trial: Trainings per trial, with seeds 0, 1, ... above the study's seed.
        batch_size: Size of a constant batch, and the unit of a schedule's step.
        boundaries: Last epoch of batch 1, of 2^P and of 2^(P+1).
        precision: Arithmetic of the training step.
        train_images: Only the first images of the training split; ``None`` for all.
        shifts: Whether training images are shifted by up to 2 pixels each way.
        lr_max: Highest learning rate (fixed rate, start of a decay).
        lr_min: Lowest learning rate, where a policy uses one.
        decay_rate: Factor by which an exponential decay falls in ``decay_steps``.
        decay_steps: Steps of the constant batch size; the authors' code has 4,000.
        cycle_epochs: Epochs of the first cycle of warm or polynomial restarts.
        cycle_growth: How many times as long as the one before each next cycle is: a whole number,
            so that cycles end with epochs (T_mult of SGDR, Loshchilov and Hutter 2017).
        polynomial_power: Power of the polynomial restarts.
        routing_gradient: Routing iterations that the gradient flows through.
        min_accuracy: Accuracy below which a trial is infeasible, a fraction; ``None`` for none.
        reconstruction_weight: Of the squared error summed over the image; 0 trains no decoder.
        space: The space of a search; ``None`` where the configurations are listed.
        configurations: A fixed list instead of a search.
        own: Values of the keys that plug-ins bring, by name, where they are not the usual ones.

    Raises:
        DefinitionError: Something is impossible; the message names the key.
    """

    name: Annotated[str, keys.name]
    network: Annotated[str, checks.name_in(NETWORKS)] = CAPSNET.name
    data_set: Annotated[DataSet, checks.one_of(DATA_SETS)] = MNIST
    objectives: Annotated[tuple[str, ...], keys.objectives] = COMMON
    sampler: Annotated[str, checks.name_in(SAMPLERS)] = TPE.name
    epochs: Annotated[int, keys.as_of_a_trial] = 30
    evaluate_on: Annotated[EvaluateOn, checks.one_of(EvaluateOn)] = EvaluateOn.VALIDATION
    runs_per_trial: Annotated[int, checks.whole(1, keys.LARGEST_RUNS)] = 1
    batch_size: Annotated[int, keys.as_of_a_trial] = 16
    boundaries: Annotated[tuple[int, ...], keys.boundaries] = (3, 8, 13)
    precision: Annotated[Precision, checks.one_of(Precision)] = Precision.FP32
    train_images: Annotated[int | None, checks.whole(1, 10_000_000)] = None
    shifts: Annotated[bool, checks.boolean] = True
    lr_max: Annotated[float, keys.as_of_a_trial] = 1e-3
    lr_min: Annotated[float, keys.as_of_a_trial] = 1e-4
    decay_rate: Annotated[float, keys.as_of_a_trial] = 0.96
    decay_steps: Annotated[int, keys.as_of_a_trial] = 2000
    cycle_epochs: Annotated[int, keys.as_of_a_trial] = 1
    cycle_growth: Annotated[int, keys.as_of_a_trial] = 1
    polynomial_power: Annotated[float, checks.above_zero(10.0)] = 2.0
    routing_gradient: Annotated[RoutingGradient, checks.one_of(RoutingGradient)] = (
        RoutingGradient.FULL
    )
    min_accuracy: Annotated[float | None, checks.above_zero(1.0)] = None
    reconstruction_weight: Annotated[float, keys.as_of_a_trial] = RECONSTRUCTION_WEIGHT
    space: Space | None = None
    configurations: tuple[TrialParameters, ...] = ()
    own: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        # A space and configurations have been checked when they were built.
        self._take(
            {
                key: check(self[key], key)
                for key, check in {**VALUE_CHECKS, **_brought_checks()}.items()
                if self[key] is not None or key in NEEDED_KEYS
            }
        )
        check_consistency(self)

    @property
    def architecture(self) -> Network:
        """What is known of the network."""
        return NETWORKS[self.network]

    @property
    def whole_split(self) -> int:
        """Images of the whole training split."""
        size = self.data_set.train_size
        if self.evaluate_on is EvaluateOn.VALIDATION:
            size -= self.data_set.validation_size
        return size

    @property
    def split_size(self) -> int:
        """Training images per epoch."""
        return self.whole_split if self.train_images is None else self.train_images

    @property
    def evaluation_size(self) -> int:
        """Images that give the accuracy."""
        if self.evaluate_on is EvaluateOn.TEST:
            return self.data_set.test_size
        return self.data_set.validation_size

    @property
    def guessing_accuracy(self) -> float:
        """Accuracy of always naming the most frequent class of the evaluation images."""
        on_test = self.evaluate_on is EvaluateOn.TEST
        return self.data_set.most_frequent[on_test] / self.evaluation_size

    @property
    def least_feasible_accuracy(self) -> float:
        """Accuracy from which a trial is better than guessing, by a binomial test at 0.1 %."""
        images = self.evaluation_size
        return least_above_guessing(images, self.guessing_accuracy) / images

    @property
    def offered_epochs(self) -> tuple[int, ...]:
        """Lengths of training in epochs that a trial may have, the shortest first."""
        offered = (self.space and self.space.epochs) or (self.epochs,)
        own = {self.epochs_of(parameters) for parameters in self.configurations}
        return tuple(sorted(own or offered))

    @property
    def offered_networks(self) -> set[tuple[Decoder | None, bool | None]]:
        """Decoder and weight sharing of each network that a trial may have."""
        space = self.space
        if space is None:
            return {(each.decoder, each.weight_sharing) for each in self.configurations}
        return set(product(space.decoder or (None,), space.weight_sharing or (None,)))

    @property
    def epochs_in_words(self) -> str:
        """``1 epoch``, or ``10 to 30 epochs``."""
        return f"{self.epochs_shown} epoch{'' if self.offered_epochs[-1] == 1 else 's'}"

    @property
    def epochs_shown(self) -> str:
        """The same without the word: ``30``, or ``10 to 30``."""
        return " to ".join(map(str, sorted({self.offered_epochs[0], self.offered_epochs[-1]})))

    def setting(self, parameters: TrialParameters, key: str) -> Any:  # noqa: ANN401  # of that key
        """The trial's own value of ``key``, or the study's where the space does not vary it."""
        own = parameters[key]
        return self.default(key) if own is None else own

    def default(self, key: str) -> Any:  # noqa: ANN401  # of that key
        """The study's value of ``key``, for trials without one of their own."""
        found = self[key]
        return (
            TRIAL_PARAMETERS[key].default if found is None and key in TRIAL_PARAMETERS else found
        )

    def epochs_of(self, parameters: TrialParameters) -> int:
        """Epochs of one run of a trial."""
        return int(self.setting(parameters, "epochs"))

    def boundaries_within(self, epochs: int | None = None) -> tuple[int, ...]:
        """The boundaries below the last of ``epochs`` (the study's by default)."""
        last = epochs or self.epochs
        return tuple(boundary for boundary in self.boundaries if boundary < last)

    def assignments(self, rates: Mapping[str, float] | None = None) -> Iterator[TrialParameters]:
        """Every assignment of the discrete parameters, in a fixed order."""
        if self.space is None:
            return iter(self.configurations)
        return self.space.parameters(boundaries_within=self.boundaries_within, rates=rates)

    def to_dict(self) -> dict[str, Any]:
        """JSON values of every key, in the order of a study file."""
        values = {key: checks.plain(self[key]) for key in (*VALUE_CHECKS, *dict(self.own))}
        values["space"] = None if self.space is None else self.space.to_dict()
        values["configuration"] = [item.to_dict() for item in self.configurations] or None
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> StudyDefinition:
        """A checked definition from TOML or JSON values.

        Raises:
            DefinitionError: With the key, what came and what is allowed.
        """
        found = {key: value for key, value in values.items() if value is not None}
        checked = checked_values(found)
        if "name" not in found:
            raise DefinitionError("must be given", key="name")
        listed = checked.pop("configuration", ())
        if "space" in found or not listed:
            network = NETWORKS[checked.get("network", CAPSNET.name)]
            checked["space"] = Space.from_dict(found.get("space", {}), network=network)
        return cls.of({**checked, "configurations": listed})


VALUE_CHECKS: dict[str, checks.Check] = {
    key: get_args(hint)[1]
    for key, hint in get_type_hints(StudyDefinition, include_extras=True).items()
    if get_origin(hint) is Annotated
}
TABLE_CHECKS = {"space": keys.space, "configuration": keys.configurations}
NEEDED_KEYS = [field.name for field in fields(StudyDefinition) if field.default is not None]


def _brought_checks() -> dict[str, checks.Check]:
    """Checks of the keys that plug-ins bring."""
    return {each.name: each.check for each in TRIAL_PARAMETERS if each.default is not None}


def checked_values(values: Mapping[str, Any], **more: checks.Check) -> dict[str, Any]:
    """The typed values of a study file, each checked by itself; the space stays a table.

    Args:
        values: By key.
        more: Checks of further keys.

    Raises:
        DefinitionError: An unknown key, or a value outside its range.
    """
    known = {**more, **VALUE_CHECKS, **TABLE_CHECKS, **_brought_checks()}
    for key in values:
        if key in TRIAL_PARAMETERS and key not in known:
            raise DefinitionError(f"must be a list of choices in [space]: {key} = [...]", key=key)
    checks.known_keys(values, known)
    return {key: known[key](value, key) for key, value in values.items()}


SIGNIFICANCE = 1e-3
"""Probability with which one who guesses is taken to have learned something."""


@functools.cache
def least_above_guessing(images: int, guessing: float) -> int:
    """Fewest right answers that are better than guessing.

    The smallest k with P(X >= k) <= 0.1 %, where X, the right answers of one who guesses, is
    binomial with ``images`` draws of probability ``guessing``. The tail is summed term by term,
    without a normal approximation.

    Args:
        images: Number of images.
        guessing: Accuracy of always naming the most frequent class, above 0 and below 1.

    Returns:
        From 1 to ``images`` + 1, which no answers reach.
    """
    right, tail = images + 1, 0.0
    while tail <= SIGNIFICANCE:
        right -= 1
        # From the smallest terms on, so that none is lost beside a larger one.
        tail += math.exp(
            math.lgamma(images + 1)
            - math.lgamma(right + 1)
            - math.lgamma(images - right + 1)
            + right * math.log(guessing)
            + (images - right) * math.log1p(-guessing)
        )
    return right + 1
