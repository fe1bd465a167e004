"""Range tests whose best rate is known by hand."""

from __future__ import annotations

import math

import pytest

from fastrcaps_search.errors import FastrcapsError
from fastrcaps_search.training.rate_curve import Ending, RateCurve, Watch, growing_rates


def test_rates_grow_by_the_same_factor_from_lowest_to_highest() -> None:
    assert growing_rates(7) == pytest.approx([1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0])
    assert growing_rates(1) == [1e-6]


def test_smoothing_by_hand() -> None:
    # A decade is 1 / 0.15 standard deviations of the window.
    curve = RateCurve.of([1e-3, 1e-2, 1e-1], [3.0, 1.0, 2.0], Ending.HIGHEST)
    one, two = math.exp(-((1 / 0.15) ** 2) / 2), math.exp(-((2 / 0.15) ** 2) / 2)
    assert curve.smoothed == pytest.approx(
        [
            (3 + one * 1 + two * 2) / (1 + one + two),
            (one * 3 + 1 + one * 2) / (1 + 2 * one),
            (two * 3 + one * 1 + 2) / (1 + one + two),
        ]
    )
    assert curve.best_rate == 1e-2
    assert (curve.lr_max, curve.lr_min) == (1e-3, 1e-4)


def test_a_parabola_over_the_logarithm_has_its_best_rate_at_its_foot() -> None:
    rates = growing_rates(301)
    losses = [0.5 + (math.log10(rate) + 2.5) ** 2 for rate in rates]
    curve = RateCurve.of(rates, losses, Ending.HIGHEST)
    # The window is symmetric: it lifts the parabola and moves it nowhere.
    assert curve.best_rate == pytest.approx(10**-2.5)
    assert curve.lr_max == 3.2e-4
    assert curve.lr_min == 3.2e-5


@pytest.mark.parametrize("steepness", [20.0, 200.0, 2000.0])
def test_descent_on_a_quadratic_is_best_just_below_where_it_diverges(steepness: float) -> None:
    """Gradient descent on a x^2 / 2 diverges from the rate 2 / a on, whatever else it learns."""
    x, y, watch = 1.0, 1.0, Watch(300)
    rates, losses, ending = growing_rates(300), [], Ending.HIGHEST
    for number, rate in enumerate(rates):
        loss = steepness * x * x / 2 + y * y / 2
        losses.append(loss)
        if watch(loss):
            ending = Ending.EXPLODED
            break
        noise = 0.01 * (-1) ** number  # of the gradient, as batches have it
        x, y = x - rate * (steepness * x + noise * steepness), y - rate * y
    curve = RateCurve.of(rates[: len(losses)], losses, ending)
    assert ending is Ending.EXPLODED
    edge = 2 / steepness
    assert edge / 5 < curve.best_rate < edge
    assert edge / 50 <= curve.lr_max <= edge / 10


def test_a_loss_explodes_at_four_times_the_least_mean() -> None:
    # A twentieth of 20 steps is one: every loss is its own mean.
    watch = Watch(20)
    assert [watch(loss) for loss in (5.0, 1.0, 3.9, 4.1, 1.0)] == [False] * 3 + [True, False]
    # Over 40 steps, two: the mean of 1 and 8 with weights 1/2 and 1 is 17/3, of 1, 1 and 8 less
    # than 4 times 1 it is not.
    watch = Watch(40)
    assert not watch(1.0)
    assert watch(8.0)
    watch = Watch(40)
    assert not watch(1.0)
    assert not watch(5.0)  # (0.5 + 5) / 1.5 = 3.67


@pytest.mark.parametrize("losses", [[], [1.0, 0.95, 1.0], [1.0, 2.0, 3.0]])
def test_a_loss_that_never_fell_proposes_nothing(losses: list[float]) -> None:
    with pytest.raises(FastrcapsError, match=r"must fall by 10% .* then the loss was not finite;"):
        RateCurve.of([1e-3, 1e-2, 1e-1][: len(losses)], losses, Ending.NOT_FINITE)
