"""One trial's parameters: typed, checked, and only those that apply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from fastrcaps_search.definition import checks
from fastrcaps_search.definition.batch_policies import BATCH_POLICIES, BatchPolicy
from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.definition.lr_policies import LR_POLICIES, LrPolicy
from fastrcaps_search.errors import DefinitionError
from fastrcaps_search.registry import Registry

LARGEST_EPOCHS = 10_000
RECONSTRUCTION_WEIGHT = 0.0005
"""Of the squared error summed over an image: Sabour et al. 2017, section 4.1."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a trial may have a value of.

    Attributes:
        name: Key in study files, in JSON and in the database.
        check: ``(value, key) -> typed value``.
        is_range: Whether a space gives a range (log scale); of the others it lists the choices.
        default: What a study has that does not say; of those that plug-ins bring.
        choices: Of a space that leaves it out; nothing where it is then not varied.
    """

    name: str
    check: checks.Check
    is_range: bool = False
    default: int | float | None = None
    choices: tuple[Any, ...] = ()

    @property
    def check_offered(self) -> checks.Check:
        """Check of what a space holds of it."""
        return checks.range_of(self.check) if self.is_range else checks.list_of(self.check)


TRIAL_PARAMETERS: Registry[Parameter] = Registry("parameter")
"""Every parameter, in the order of tables; those of plug-ins come last."""

for _parameter in (
    Parameter("lr_policy", checks.name_in(LR_POLICIES)),
    Parameter("batch_policy", checks.name_in(BATCH_POLICIES)),
    Parameter("adabatch_exponent", checks.whole(0, 10), choices=(2, 3, 4, 5, 6, 7)),
    Parameter("decoder", checks.one_of(Decoder), choices=(Decoder.FULL, Decoder.REDUCED)),
    Parameter("weight_sharing", checks.boolean, choices=(False, True)),
    Parameter("reconstruction_weight", checks.from_zero(1.0)),
    Parameter("lr_max", checks.above_zero(1.0), is_range=True),
    Parameter("lr_min", checks.above_zero(1.0), is_range=True),
    Parameter("batch_size", checks.whole(1, 65_536)),
    Parameter("epochs", checks.whole(1, LARGEST_EPOCHS)),
    # Closer to 1, a decay is the fixed rate under another name.
    Parameter("decay_rate", checks.above_zero(0.9999), is_range=True),
    Parameter("decay_steps", checks.whole(1, 10_000_000)),
    Parameter("cycle_epochs", checks.whole(1, LARGEST_EPOCHS)),
    Parameter("cycle_growth", checks.whole(1, 10)),
):
    TRIAL_PARAMETERS.register(_parameter)


class Keyed:
    """Values by the keys of a study file: fields, and in ``own`` those that plug-ins bring."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]
    own: tuple[tuple[str, Any], ...]

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401  # of that key
        """The value of a key; ``None`` where it is not set."""
        return getattr(self, key) if key in self.__dataclass_fields__ else dict(self.own).get(key)

    def to_dict(self) -> dict[str, Any]:
        """JSON values of the parameters that are set."""
        found = {name: checks.plain(self[name]) for name in TRIAL_PARAMETERS.names}
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From the values of all keys that are set."""
        return cls(**cls._by_field(values))

    def _take(self, values: Mapping[str, Any]) -> None:
        """Hold these instead; for the constructor, whose object is frozen."""
        for name, value in self._by_field(values).items():
            object.__setattr__(self, name, value)

    @classmethod
    def _by_field(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        fields = {key: values[key] for key in values if key in cls.__dataclass_fields__}
        own = sorted(values.keys() - fields.keys())
        return {**fields, "own": tuple((key, values[key]) for key in own)}


@dataclass(frozen=True, slots=True)
class TrialParameters(Keyed):
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
        own: Parameters that plug-ins bring, by name.
    """

    lr_policy: str
    batch_policy: str | None = None
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
    own: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        self._take(
            {
                each.name: each.check(self[each.name], each.name)
                for each in TRIAL_PARAMETERS
                if self[each.name] is not None or each.name == "lr_policy"
            }
        )

    @property
    def lr(self) -> LrPolicy:
        """The learning-rate policy."""
        return LR_POLICIES[self.lr_policy]

    @property
    def batch(self) -> BatchPolicy:
        """The batch policy; the learning-rate policy's own where it has one."""
        return self.lr.batch or BATCH_POLICIES[self.batch_policy or "constant"]

    @property
    def adapts_batch(self) -> bool:
        """Whether the batch size grows during training."""
        return self.batch.grows

    @property
    def reconstructs(self) -> bool:
        """Whether a decoder is trained."""
        return self.decoder not in (None, Decoder.NONE)

    @property
    def policy(self) -> str:
        """The pair of schedules in one word, as tables and legends show it."""
        if self.lr.batch is None and self.batch.grows:
            return f"{self.lr_policy}+{self.batch_policy}"
        return self.lr_policy

    @property
    def described(self) -> str:
        """The policy, with what else the space varies of its training."""
        names = [*self.lr.settings, "batch_size", "epochs", "reconstruction_weight"]
        names += [name for name, _ in self.own if name not in names]
        varied = {name.removesuffix("_size"): self[name] for name in names}
        found = [
            f"{name}={format(value, '.3g' if isinstance(value, float) else '')}"
            for name, value in varied.items()
            if value is not None
        ]
        return " ".join([self.policy, *found])

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, prefix: str = "") -> TrialParameters:
        """Checked parameters from JSON or TOML values.

        Raises:
            DefinitionError: An unknown parameter, or a value outside its range.
        """
        checks.known_keys(values, TRIAL_PARAMETERS.names, prefix=prefix)
        if "lr_policy" not in values:
            raise DefinitionError("must be given", key=f"{prefix}lr_policy")
        try:
            return cls.of(values)
        except DefinitionError as error:
            raise DefinitionError(error.message, key=f"{prefix}{error.key}") from error
