"""What a learning-rate range test saw, and the range of rates that follows from it.

A network is trained for some steps while the rate grows exponentially (Smith 2017, "Cyclical
Learning Rates for Training Neural Networks", section 3.3). The loss falls where rates train well,
turns where they are too high, and explodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.errors import FastrcapsError

LOWEST_RATE, HIGHEST_RATE = 1e-6, 1.0
FEWEST_STEPS = 20
EXPLODED = 4.0
"""A loss of so many times the least one has exploded, as in fastai's ``lr_find``."""
WINDOW_DECADES = 0.15
"""Standard deviation of the window that smooths the losses, in powers of ten of the rate."""
FELL = 0.9
"""A least loss above this share of the first one says nothing about the rates."""
SAFETY = 10.0
"""The proposal is the rate of the least loss divided by this: fastai's rule ``minimum`` (Gugger
2018, "How Do You Find A Good Learning Rate": "one order of magnitude before")."""
SPAN = 10.0
"""Highest rate over the lowest one: 1e-3 over 1e-4 in FasTrCaps 2020."""


class Ending(StrEnum):
    """Why a test ended."""

    HIGHEST = "highest_rate"
    EXPLODED = "exploded"
    NOT_FINITE = "not_finite"

    @property
    def words(self) -> str:
        """A sentence."""
        return {
            Ending.HIGHEST: "the highest rate was reached",
            Ending.EXPLODED: "the loss exploded",
            Ending.NOT_FINITE: "the loss was not finite",
        }[self]


@dataclass(frozen=True, slots=True)
class RateCurve:
    """Losses by learning rate.

    Attributes:
        rates: Learning rate of each step, growing.
        losses: Mean loss of its batch, before its update; finite.
        smoothed: The losses under a Gaussian window over the logarithm of the rate. It looks both
            ways, so that the curve does not lag behind the rate.
        ending: Why there are no more.
    """

    rates: tuple[float, ...]
    losses: tuple[float, ...]
    smoothed: tuple[float, ...]
    ending: Ending

    @classmethod
    def of(cls, rates: list[float], losses: list[float], ending: Ending) -> RateCurve:
        """The curve of these losses, smoothed.

        Raises:
            FastrcapsError: The loss never fell: there is nothing to propose.
        """
        smoothed = tuple(_smoothed(rates, losses))
        if not losses or min(smoothed) > FELL * smoothed[0]:
            raise FastrcapsError(
                f"the loss must fall by {1 - FELL:.0%} before a rate can be proposed, but it did "
                f"not in {len(losses)} steps, then {ending.words}; try more --steps or another "
                "--seed"
            )
        return cls(tuple(rates), tuple(losses), smoothed, ending)

    @property
    def best_rate(self) -> float:
        """The rate of the least smoothed loss."""
        return self.rates[self.smoothed.index(min(self.smoothed))]

    @property
    def lr_max(self) -> float:
        """The highest rate to propose, to two figures."""
        return _rounded(self.best_rate / SAFETY)

    @property
    def lr_min(self) -> float:
        """The lowest rate to propose, to two figures."""
        return _rounded(self.lr_max / SPAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateTest:
    """A range test of one network of a study.

    Attributes:
        study: Name of the study.
        network: Which network.
        decoder: Decoder of the network that was trained; ``None`` without capsules.
        weight_sharing: Whether it shares weights; ``None`` without capsules.
        batch_size: Images per step.
        seed: Of weights, order and shifts.
        device_name: Where.
        steps: Steps that were planned.
        seconds: That the steps took.
        curve: What was seen.
    """

    study: str
    network: str
    decoder: Decoder | None
    weight_sharing: bool | None
    batch_size: int
    seed: int
    device_name: str
    steps: int
    seconds: float
    curve: RateCurve

    @property
    def lr_max(self) -> float:
        """The highest rate to propose."""
        return self.curve.lr_max

    @property
    def lr_min(self) -> float:
        """The lowest rate to propose."""
        return self.curve.lr_min

    @property
    def lines(self) -> str:
        """The proposal as two lines of a study file."""
        return f"lr_max = {self.lr_max}\nlr_min = {self.lr_min}"

    @property
    def trained(self) -> str:
        """What was trained, in words."""
        if self.decoder is None:
            return str(self.network)
        decoder = "no" if self.decoder is Decoder.NONE else self.decoder
        weights = "shared" if self.weight_sharing else "own"
        return f"{self.network}, {decoder} decoder, {weights} weights"


def growing_rates(steps: int) -> list[float]:
    """So many rates from the lowest to the highest, each the same multiple of the one before."""
    growth = HIGHEST_RATE / LOWEST_RATE
    return [LOWEST_RATE * growth ** (step / max(steps - 1, 1)) for step in range(steps)]


class Watch:
    """Tells when the loss has exploded, by its running mean over a twentieth of the test.

    Args:
        steps: Steps of the test.
    """

    def __init__(self, steps: int) -> None:
        self._keep = 1 - 1 / max(steps / 20, 1)
        self._sum = self._weight = 0.0
        self._least = math.inf

    def __call__(self, loss: float) -> bool:
        """Whether the loss of the next step says so."""
        self._sum = self._keep * self._sum + loss
        self._weight = self._keep * self._weight + 1
        mean = self._sum / self._weight
        self._least = min(self._least, mean)
        return mean > EXPLODED * self._least


def _smoothed(rates: list[float], losses: list[float]) -> list[float]:
    places = [math.log10(rate) / WINDOW_DECADES for rate in rates]
    found = []
    for place in places:
        weights = [math.exp(-((place - other) ** 2) / 2) for other in places]
        total = math.fsum(w * loss for w, loss in zip(weights, losses, strict=True))
        found.append(total / math.fsum(weights))
    return found


def _rounded(rate: float) -> float:
    return float(f"{rate:.1e}")
