"""The closed sets that a study chooses from. Each value is the word used in study files."""

from __future__ import annotations

from enum import StrEnum


class Network(StrEnum):
    """Networks that can be trained."""

    CAPSNET = "capsnet"
    CAPSNET_NARROW = "capsnet-narrow"
    LENET5 = "lenet5"

    @property
    def has_capsules(self) -> bool:
        """Whether the decoder and weight-sharing parameters apply."""
        return self is not Network.LENET5

    @property
    def coupling_coefficients(self) -> int:
        """What the paper counts beside the learned parameters: one per input capsule and class."""
        types = {Network.CAPSNET: 32, Network.CAPSNET_NARROW: 8, Network.LENET5: 0}[self]
        return types * 36 * 10


class LrPolicy(StrEnum):
    """Learning-rate policies (design section 3; FasTrCaps section III)."""

    FIXED = "fixed"
    EXPONENTIAL_DECAY = "exponential_decay"
    ONE_CYCLE = "one_cycle"
    WARM_RESTARTS = "warm_restarts"
    WARM_ADABATCH = "warm_adabatch"
    POLYNOMIAL_RESTARTS = "polynomial_restarts"

    @property
    def settings(self) -> tuple[str, ...]:
        """Parameters that shape its curve, those of a trial where the space varies them."""
        if self is LrPolicy.FIXED:
            return ("lr_max",)
        if self is LrPolicy.EXPONENTIAL_DECAY:
            return ("lr_max", "decay_rate", "decay_steps")
        if self in (LrPolicy.WARM_RESTARTS, LrPolicy.POLYNOMIAL_RESTARTS):
            return ("lr_max", "lr_min", "cycle_epochs", "cycle_growth")
        return ("lr_max", "lr_min")

    @property
    def uses_lr_min(self) -> bool:
        """Whether the policy has a lower learning rate at all."""
        return "lr_min" in self.settings


CURVE_KEYS = tuple(dict.fromkeys(key for policy in LrPolicy for key in policy.settings))
"""Parameters that shape the curve of some learning-rate policy."""


class BatchPolicy(StrEnum):
    """Batch-size policies; WarmAdaBatch fixes its own."""

    CONSTANT = "constant"
    ADABATCH = "adabatch"


class Decoder(StrEnum):
    """Decoder input: all ten class capsules masked (10x16), or the chosen one alone (1x16).

    ``NONE``: no decoder, the margin loss alone (FasTrCaps 2020, section III-D).
    """

    FULL = "full"
    REDUCED = "reduced"
    NONE = "none"


class EvaluateOn(StrEnum):
    """Split that gives a trial's accuracy: a search never looks at the test set."""

    VALIDATION = "validation"
    TEST = "test"

    @property
    def images(self) -> str:
        """What a page calls the images."""
        return {EvaluateOn.VALIDATION: "validation split", EvaluateOn.TEST: "test set"}[self]


class Precision(StrEnum):
    """Arithmetic of the products; weights and sums are float32 in all of them.

    ``FP32``: factors as they are. ``TF32``: factors rounded to 10 bits where a card has units for
    it; on a CPU the same as ``FP32``. ``BF16``: factors rounded to bfloat16 (7 bits), on a CPU in
    evaluation too.
    """

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"


class EarlyStopping(StrEnum):
    """Rule that ends a run before its last epoch."""

    OFF = "off"


class RoutingGradient(StrEnum):
    """Through which routing iterations the gradient flows."""

    FULL = "full"
    LAST = "last"


CAPSULE_KEYS = ("decoder", "weight_sharing")
"""Parameters that only a network with capsules has."""
