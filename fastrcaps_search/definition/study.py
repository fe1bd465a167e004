"""A study's definition: frozen, checked when built, the same text for the same meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from fastrcaps_search.data.data_set import DataSet
from fastrcaps_search.data.shipped import MNIST
from fastrcaps_search.definition.choices import (
    CAPSULE_KEYS,
    EarlyStopping,
    EvaluateOn,
    Network,
    Precision,
    RoutingGradient,
)
from fastrcaps_search.definition.consistency import check_consistency
from fastrcaps_search.definition.guessing import least_above_guessing
from fastrcaps_search.definition.keys import OPTIONAL_KEYS, STUDY_CHECKS, check_keys
from fastrcaps_search.definition.parameters import RECONSTRUCTION_WEIGHT, TrialParameters
from fastrcaps_search.definition.space import DEFAULTS, Space
from fastrcaps_search.errors import DefinitionError

PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyDefinition:
    """What a study asks: network, data, protocol and space.

    Attributes:
        name: Name in the database and of its folders.
        network: Network that every trial trains.
        data_set: Images that every trial trains on.
        epochs: Epochs of one run, where the space does not vary them.
        evaluate_on: Split that gives the accuracy.
        runs_per_trial: Trainings per trial, with seeds 0, 1, ... above the study's seed.
        batch_size: Size of a constant batch, and the unit of a schedule's step.
        boundaries: Last epoch of batch 1, of 2^P and of 2^(P+1).
        precision: Arithmetic of the training step.
        early_stopping: Rule that ends a run early.
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

    Raises:
        DefinitionError: Something is impossible; the message names the key.
    """

    name: str
    network: Network = Network.CAPSNET
    data_set: DataSet = MNIST
    epochs: int = 30
    evaluate_on: EvaluateOn = EvaluateOn.VALIDATION
    runs_per_trial: int = 1
    batch_size: int = 16
    boundaries: tuple[int, ...] = (3, 8, 13)
    precision: Precision = Precision.FP32
    early_stopping: EarlyStopping = EarlyStopping.OFF
    train_images: int | None = None
    shifts: bool = True
    lr_max: float = 1e-3
    lr_min: float = 1e-4
    decay_rate: float = 0.96
    decay_steps: int = 2000
    cycle_epochs: int = 1
    cycle_growth: int = 1
    polynomial_power: float = 2.0
    routing_gradient: RoutingGradient = RoutingGradient.FULL
    min_accuracy: float | None = None
    reconstruction_weight: float = RECONSTRUCTION_WEIGHT
    space: Space | None = None
    configurations: tuple[TrialParameters, ...] = ()

    def __post_init__(self) -> None:
        for key, check in STUDY_CHECKS.items():
            # A space and configurations have been checked when they were built.
            if key in FIELDS and (key not in OPTIONAL_KEYS or getattr(self, key) is not None):
                object.__setattr__(self, key, check(getattr(self, key), key))
        check_consistency(self)

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
    def epochs_in_words(self) -> str:
        """``1 epoch``, or ``10 to 30 epochs``."""
        return f"{self.epochs_shown} epoch{'' if self.offered_epochs[-1] == 1 else 's'}"

    @property
    def epochs_shown(self) -> str:
        """The same without the word: ``30``, or ``10 to 30``."""
        return " to ".join(map(str, sorted({self.offered_epochs[0], self.offered_epochs[-1]})))

    def setting(self, parameters: TrialParameters, key: str) -> Any:  # noqa: ANN401  # of that key
        """The trial's own value of ``key``, or the study's where the space does not vary it."""
        own = getattr(parameters, key)
        return getattr(self, key) if own is None else own

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
        values: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "space":
                values["space"] = None if value is None else value.to_dict()
            elif field.name == "configurations":
                values["configuration"] = [item.to_dict() for item in value] or None
            elif isinstance(value, tuple):
                values[field.name] = list(value)
            else:
                values[field.name] = str(value) if type(value) not in PLAIN else value
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> StudyDefinition:
        """A checked definition from TOML or JSON values.

        Raises:
            DefinitionError: With the key, what came and what is allowed.
        """
        given = {key: value for key, value in values.items() if value is not None}
        check_keys(given)
        if "name" not in given:
            raise DefinitionError("must be given", key="name")
        found = {key: STUDY_CHECKS[key](value, key) for key, value in given.items()}
        listed = found.pop("configuration", ())
        space = found.pop("space", None)
        if space is None and not listed:
            space = {}
        return cls(
            **found,
            space=None if space is None else _space(space, found.get("network", Network.CAPSNET)),
            configurations=listed,
        )


FIELDS = frozenset(field.name for field in fields(StudyDefinition)) - {"space", "configurations"}


def _space(table: dict[str, Any], network: Network) -> Space:
    """The space, with the shipped choices for the capsule parameters that are left out."""
    if network.has_capsules:
        for key in CAPSULE_KEYS:
            table = {key: list(DEFAULTS[key]), **table}
    return Space.from_dict(table)
