"""The closed sets that a study chooses from. Each value is the word used in study files."""

from __future__ import annotations

from enum import StrEnum


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


class RoutingGradient(StrEnum):
    """Through which routing iterations the gradient flows."""

    FULL = "full"
    LAST = "last"
