"""Probabilities against closed forms, a known prior, and fronts whose truth is known."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats  # type: ignore[import-untyped]  # it ships no types

from fastrcaps_search.front.estimates import (
    NEAR,
    front_probabilities,
)
from fastrcaps_search.front.spread import Sample, pooled_spread

NAN, INF = math.nan, math.inf
Rows = NDArray[np.float64]
Counts = NDArray[np.int64]


def scattered(mean: float, deviation: float, count: int) -> tuple[float, ...]:
    """Return an even number of values of exactly about this mean and deviation (n - 1)."""
    step = deviation * math.sqrt((count - 1) / count)
    return (mean - step, mean + step) * (count // 2)


def sample(
    *accuracies: float, seconds: float | tuple[float, ...] = 30.0, parameters: float = 1e6
) -> Sample:
    """Return a trial, of equal seconds in each run unless told."""
    each = seconds if isinstance(seconds, tuple) else (seconds,) * len(accuracies)
    return Sample(accuracies, each, parameters)


def probabilities(samples: list[Sample], *, draws: int = 2000) -> list[float]:
    found = front_probabilities(tuple(samples), draws=draws)
    assert found is not None
    return list(found)


def plain_front(rows: Rows) -> NDArray[np.bool_]:
    """Return which rows no other row dominates, by comparing all pairs; smaller is better."""
    no_worse = (rows[:, None] <= rows[None]).all(axis=2)
    better = (rows[:, None] < rows[None]).any(axis=2)
    return ~np.asarray((no_worse & better).any(axis=0))


# What a sample must be


def test_values_are_means_of_the_runs() -> None:
    assert Sample((0.5, 0.75), (10.0, 40.0), 7.0).values == (0.625, 25.0, 7.0)


@pytest.mark.parametrize(
    ("accuracies", "seconds", "message"),
    [
        pytest.param((), (), "of at least one run, got 0 and 0", id="empty"),
        pytest.param((0.5,), (1.0, 2.0), "one run, got 1 and 2", id="uneven"),
        pytest.param((98.5,), (1.0,), "fraction from 0 to 1, got 98.5: divide", id="percent"),
        pytest.param((0.5, -0.1), (1.0, 1.0), "fraction from 0 to 1, got -0.1", id="negative"),
        pytest.param((0.5,), (0.0,), "seconds must be above 0, got 0.0: leave", id="no seconds"),
    ],
)
def test_a_sample_is_refused(
    accuracies: tuple[float, ...], seconds: tuple[float, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Sample(accuracies, seconds, 1.0)


# The pooled spread


def test_the_pooled_spread_by_hand() -> None:
    pooled = pooled_spread(
        [
            sample(0.90, 0.92, seconds=(10.0, 10.0 * math.e)),
            sample(0.5),
            sample(0.1, 0.1, 0.4, seconds=(1.0, math.e**2, math.e)),
            sample(0.3, NAN),
        ]
    )
    # Deviations (-.01, -.5), (.01, .5); then (-.1, -1), (-.1, 1), (.2, 0); degrees 1 + 2.
    assert pooled is not None
    assert pooled.degrees == 3
    assert (pooled.accuracy, pooled.log_seconds) == pytest.approx((0.0602, 2.5))


@pytest.mark.parametrize(
    "samples", [[], [sample(0.9), sample(0.8)], [sample(0.9), sample(0.8, INF)]]
)
def test_nothing_is_said_where_nothing_was_repeated(samples: list[Sample]) -> None:
    assert pooled_spread(samples) is None
    assert front_probabilities(tuple(samples)) is None


# Closed forms


@pytest.mark.parametrize(("first", "second"), [(2, 1), (2, 2), (4, 2), (60, 40)])
@pytest.mark.parametrize("gap", [0.004, 0.012])
def test_two_trials_that_differ_in_accuracy_follow_student_s_t(
    first: int, second: int, gap: float
) -> None:
    deviation = 0.01
    better = sample(*scattered(0.9 + gap, deviation, first))
    other = sample(*(scattered(0.9, deviation, second) if second > 1 else (0.9,)))
    degrees = (first - 1) + (second - 1)
    error = deviation * math.sqrt(1 / first + 1 / second)
    expected = stats.t.cdf(gap / error, degrees)
    found = probabilities([better, other], draws=8_000)
    assert found == pytest.approx([expected, 1 - expected], abs=4 * 0.5 / math.sqrt(8_000))


def test_two_trials_that_differ_in_seconds_do_so_by_their_logarithms() -> None:
    slow = tuple(math.exp(x) for x in scattered(3.1, 0.2, 30))
    fast = tuple(0.9 * x for x in slow)
    error = 0.2 * math.sqrt(2 / 30)
    expected = stats.t.cdf(-math.log(0.9) / error, 58)
    samples = [sample(*[0.9] * 30, seconds=each) for each in (slow, fast)]
    found = probabilities(samples, draws=8_000)
    assert found == pytest.approx([1 - expected, expected], abs=0.023)


# The posterior that books give for a prior that is known


def random_samples(generator: np.random.Generator, count: int, most_runs: int) -> list[Sample]:
    samples = []
    for _ in range(count):
        runs = int(generator.integers(1, most_runs + 1))
        share = generator.random()
        common = generator.normal(0, 1, runs)
        accuracy = 0.9 + 0.06 * share - generator.exponential(0.006)
        accuracies = accuracy + 0.003 * (common + generator.normal(0, 1, runs))
        seconds = np.exp(3 + share + generator.exponential(0.1) + 0.08 * common)
        seconds *= np.exp(0.05 * generator.normal(0, 1, runs))
        samples.append(
            Sample(
                tuple(np.clip(accuracies, 0, 1).tolist()),
                tuple(seconds.tolist()),
                float(generator.choice([1e6, 2e6, 3e6])),
            )
        )
    return samples


@pytest.mark.parametrize("runs", [1, 4])
def test_a_known_prior_gives_about_the_same(runs: int) -> None:
    # So many trials tell their prior; the eleventh of them and those after it were run more often.
    generator = np.random.default_rng(runs)
    count, noise, width = 150, np.array([0.003, 0.08]), np.array([0.006, 0.3])
    centre = np.array([0.93, 3.4])
    truth = centre + width * generator.standard_normal((count, 2))
    counts = np.where(np.arange(count) < 10, runs, 4)
    samples, posterior = [], np.empty((2, count, 2))
    for index, n in enumerate(counts.tolist()):
        values = truth[index] + noise * generator.standard_normal((n, 2))
        values[:, 1] = np.exp(values[:, 1])
        size = float(generator.choice([1e6, 2e6, 3e6]))
        samples.append(Sample(tuple(values[:, 0].tolist()), tuple(values[:, 1].tolist()), size))
        mean = np.array([values[:, 0].mean(), math.log(values[:, 1].mean())])
        kept = width**2 / (width**2 + noise**2 / n)
        posterior[:, index] = centre + kept * (mean - centre), noise * np.sqrt(kept / n)
    sizes = [one.parameters for one in samples]
    expected = np.zeros(count)
    for _ in range(1000):
        drawn = posterior[0] + posterior[1] * generator.standard_normal((count, 2))
        expected += plain_front(np.column_stack([-drawn[:, 0], drawn[:, 1], sizes])) / 1000
    found = np.array(probabilities(samples))
    assert np.count_nonzero((expected > 0.1) & (expected < 0.9)) >= 5
    assert np.abs(found - expected).max() < 0.12
    assert np.abs(found - expected).mean() < 0.01


# Ties, equal trials and spreads that are not there


def test_without_any_scatter_the_front_is_certain() -> None:
    samples = [
        sample(0.9, 0.9, seconds=10.0),
        sample(0.9, seconds=10.0),  # equal to the first
        sample(0.9, seconds=math.nextafter(10.0, 11.0)),
        sample(0.95, 0.95, seconds=11.0),
        sample(0.95, seconds=11.0, parameters=2e6),
        sample(0.1, seconds=99.0, parameters=1.0),
    ]
    assert probabilities(samples) == [1.0, 1.0, 0.0, 1.0, 0.0, 1.0]


def test_where_only_accuracy_scatters_equal_seconds_stay_equal() -> None:
    third = 100 / 3
    samples = [sample(0.90, 0.91, seconds=third), sample(0.90, 0.91, seconds=third)]
    samples += [sample(0.1, seconds=third + index) for index in range(6)]
    found = probabilities(samples)
    # One of the two is the more accurate; nobody else comes near.
    assert found[0] + found[1] == 1.0
    assert found[0] == pytest.approx(0.5, abs=0.045)
    assert found[2:] == [0.0] * 6


def test_equal_trials_share_the_front_by_chance_and_fewest_parameters_are_always_on_it() -> None:
    twins = [sample(0.90, 0.91, 0.905, seconds=(9.0, 11.0, 10.0)) for _ in range(2)]
    smallest = sample(0.2, seconds=900.0, parameters=10.0)
    found = probabilities([*twins, smallest])
    # Correlated noise: each dominates the other in less than half of the draws.
    assert found[0] == pytest.approx(found[1], abs=0.05)
    assert 0.5 < found[0] < 1
    assert found[2] == 1.0


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 40])
def test_means_that_are_all_equal_or_on_one_line_are_no_trouble(count: int) -> None:
    equal = [sample(0.5, 0.6, seconds=(20.0, 30.0)) for _ in range(count)]
    line = [
        sample(0.5 + i / 100, 0.52 + i / 100, seconds=(math.exp(i / 9), math.exp(i / 9 + 0.1)))
        for i in range(count)
    ]
    for samples in (equal, line):
        assert all(0 < probability <= 1 for probability in probabilities(samples, draws=400))


def test_a_trial_far_behind_is_off_the_front_and_changes_little() -> None:
    near = [sample(0.90, 0.91, seconds=(30.0, 33.0)), sample(0.902, seconds=31.0)]
    far = sample(0.3, seconds=3000.0)
    found = probabilities([*near, far], draws=8000)
    assert found[2] < 0.02
    assert found[:2] == pytest.approx(probabilities(near, draws=8000), abs=0.03)


@pytest.mark.parametrize(
    "stranger",
    [
        sample(NAN, 1.0),
        sample(1.0, 1.0, seconds=(1e-9, INF)),
        sample(1.0, parameters=NAN),
        sample(1.0, seconds=1e-9, parameters=-INF),
    ],
)
def test_a_trial_that_is_not_finite_is_on_no_front_and_changes_nothing(stranger: Sample) -> None:
    samples = random_samples(np.random.default_rng(3), 12, 3)
    found = probabilities([stranger, *samples[:5], stranger, *samples[5:]], draws=200)
    assert (found.pop(6), found.pop(0)) == (0.0, 0.0)
    assert found == probabilities(samples, draws=200)


# Drawing


def test_equal_samples_have_equal_probabilities_in_any_order() -> None:
    samples = random_samples(np.random.default_rng(4), 30, 3)
    found = probabilities(samples, draws=600)
    front_probabilities.cache_clear()
    assert found == probabilities(samples, draws=600)
    order = Random(5).sample(range(30), 30)
    assert probabilities([samples[i] for i in order], draws=600) == [found[i] for i in order]


def test_probabilities_are_shares_of_the_draws() -> None:
    samples = random_samples(np.random.default_rng(4), 10, 3)
    assert set(probabilities(samples, draws=1)) <= {0.0, 1.0}
    assert all((8 * share).is_integer() for share in probabilities(samples, draws=8))
    with pytest.raises(ValueError, match=r"^draws must be at least 1, got 0: leave it out"):
        front_probabilities(tuple(samples), draws=0)


# Fronts whose truth is known


def repeated(values: Rows, parameters: Rows, plan: str, generator: np.random.Generator) -> Counts:
    """Return [n] how many of the five runs, values [n, 5, 2], each trial was given."""
    count = len(values)
    if plan == "any":
        return generator.integers(1, 6, count)
    if plan.startswith("all"):
        return np.full(count, int(plan[-1]))
    runs = np.ones(count, dtype=np.int64)
    # As runs are added, others come onto the front; until each on it has enough.
    while True:
        means = [one[:n].mean(axis=0) for one, n in zip(values, runs, strict=True)]
        short = plain_front(np.column_stack([means, parameters])) & (runs < int(plan[-1]))
        if not short.any():
            return runs
        runs[short] += 1


def known_study(
    generator: np.random.Generator, noise: tuple[float, float], plan: str
) -> tuple[list[Sample], NDArray[np.bool_]]:
    """Return 10 to 40 trials near a curve of accuracy over time, and which are on the front."""
    count = int(generator.integers(10, 41))
    share = generator.random(count)
    parameters = generator.choice([6_706_304.0, 6_780_032.0, 8_142_000.0, 8_215_728.0], count)
    accuracy = 0.90 + 0.08 * np.sqrt(share) - generator.exponential(0.02, count)
    accuracy += 0.004 * (parameters > 7e6)
    logarithm = 3.4 + 1.5 * share + generator.exponential(0.4, count)
    truth = plain_front(np.column_stack([-accuracy, logarithm, parameters]))
    covariance = np.outer(noise, noise) * [[1, 0.5], [0.5, 1]]
    values = generator.multivariate_normal([0, 0], covariance, (count, 5))
    values += np.stack([accuracy, logarithm], axis=1)[:, None]
    values[..., 0] = np.clip(values[..., 0], 0, 1)
    runs = repeated(values * [-1, 1], parameters, plan, generator)
    samples = [
        Sample(tuple(one[:n, 0].tolist()), tuple(np.exp(one[:n, 1]).tolist()), float(p))
        for one, n, p in zip(values, runs, parameters, strict=True)
    ]
    return samples, truth


@pytest.mark.parametrize("plan", ["all 2", "any", "front 2", "front 5"])
@pytest.mark.parametrize("noise", [(0.003, 0.1), (0.01, 0.3)], ids=["little", "much"])
def test_of_trials_said_to_be_at_0_8_about_0_8_are_on_the_front(
    noise: tuple[float, float], plan: str
) -> None:
    generator = np.random.default_rng(8)
    said: list[float] = []
    true: list[bool] = []
    for _ in range(80):
        samples, truth = known_study(generator, noise, plan)
        said += probabilities(samples, draws=200)
        true += truth.tolist()
    said_rows, true_rows = np.array(said), np.array(true)

    def share(low: float, high: float) -> float:
        chosen = (said_rows >= low) & (said_rows <= high)
        assert np.count_nonzero(chosen) >= 40
        return float(true_rows[chosen].mean())

    # Up to 0.1 too low, as the draws do not know that accuracy and seconds scatter together.
    assert 0.7 <= share(0.7, 0.9) <= 0.92
    assert 0.38 <= share(0.4, 0.6) <= 0.67
    assert 0.1 <= share(0.1, 0.3) <= 0.32
    assert share(0, NEAR) <= 0.08
    assert share(0.97, 1) >= 0.95
