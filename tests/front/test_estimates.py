"""Estimates against textbook posteriors, and against studies whose truth is known."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from fastrcaps_search.front.estimates import true_means
from fastrcaps_search.front.spread import Sample
from tests.benchmarks.selection_bias import measured


def study(truths: list[float], runs: list[int], noise: float, seed: int) -> list[Sample]:
    """Trials of equal seconds with these true accuracies and numbers of runs."""
    generator = np.random.default_rng(seed)
    return [
        Sample(tuple((truth + noise * generator.standard_normal(n)).tolist()), (30.0,) * n, 1e6)
        for truth, n in zip(truths, runs, strict=True)
    ]


def test_far_apart_trials_keep_their_means_with_the_pooled_interval() -> None:
    runs = [5] * 40
    samples = study(np.linspace(0.1, 0.9, 40).tolist(), runs, 0.002, 0)
    means = true_means(samples)
    assert means is not None
    accuracies = means.accuracies()
    squares = sum(np.var(one.accuracies) * 5 for one in samples)
    error = math.sqrt(squares / 160 / 5)
    for one, sample in zip(accuracies, samples, strict=True):
        assert one.value == pytest.approx(sample.values[0], abs=0.02 * error)
        # Of 160 degrees of freedom: Student's t is 1.975.
        assert (one.high - one.low) / 2 == pytest.approx(1.975 * error, rel=0.05)


@pytest.mark.parametrize("gap", [0.0, 0.1])
def test_trials_are_drawn_towards_their_group_by_the_share_of_noise(gap: float) -> None:
    # Prior and noise have the same variance: a mean of n runs keeps n / (n + 1) of its distance.
    generator = np.random.default_rng(1)
    noise = 0.004
    levels = np.where(np.arange(400) < 200, 0.93, 0.93 - gap)
    truths = levels + noise * generator.standard_normal(400)
    samples = study(truths.tolist(), [1, 4] * 200, noise, 2)
    means = true_means(samples)
    assert means is not None
    accuracies = means.accuracies()
    for one, sample, level in zip(accuracies, samples, levels.tolist(), strict=True):
        mean, count = sample.values[0], len(sample.seconds)
        kept = count / (count + 1)
        error = noise * math.sqrt(kept / count)
        assert one.value == pytest.approx(level + kept * (mean - level), abs=0.35 * noise)
        assert (one.high - one.low) / 2 == pytest.approx(1.96 * error, rel=0.15)
    # Most trials run once are further from the truth than their estimates.
    raw = np.array([sample.values[0] for sample in samples]) - truths
    estimates = np.array([one.value for one in accuracies]) - truths
    assert np.mean(estimates**2) < 0.75 * np.mean(raw**2)


def test_equal_means_stay_where_they_are() -> None:
    samples = [Sample((0.9, 0.92), (10.0, 12.0), 1e6) for _ in range(12)]
    means = true_means(samples)
    assert means is not None
    assert [one.value for one in means.accuracies()] == pytest.approx([0.91] * 12)
    assert all(one.low < 0.91 < one.high for one in means.accuracies())


def test_means_of_as_many_runs_keep_their_order_and_lie_within_the_study() -> None:
    generator = np.random.default_rng(5)
    for _ in range(40):
        # One trial scatters far more than the others, and slow ones are no better.
        noises = [0.03] + [0.004] * 7
        samples = [
            Sample(
                tuple(0.8 + noise * generator.standard_normal() for _ in range(2)),
                tuple(40 + 20 * generator.random() for _ in range(2)),
                1e6,
            )
            for noise in noises
        ]
        found = true_means(samples)
        assert found is not None
        means = [one.values[0] for one in samples]
        estimates = found.accuracies()
        order = sorted(range(8), key=lambda index: means[index])
        values = [estimates[index].value for index in order]
        assert values == sorted(values)
        assert min(means) <= values[0] + 1e-8
        assert values[-1] <= max(means) + 1e-8
        assert all(one.low <= one.value <= one.high for one in estimates)


def test_the_order_of_the_trials_changes_no_bit() -> None:
    samples = study(np.linspace(0.9, 0.91, 12).tolist(), [1, 3] * 6, 0.004, 3)
    order = Random(5).sample(range(12), 12)
    means, shuffled = true_means(samples), true_means([samples[index] for index in order])
    assert means is not None
    assert shuffled is not None
    accuracies = means.accuracies()
    assert shuffled.accuracies() == [accuracies[index] for index in order]


def test_what_another_processor_may_have_in_the_last_bits_changes_no_estimate() -> None:
    def estimates(samples: list[Sample]) -> list[float]:
        means = true_means(samples)
        assert means is not None
        return [number for one in means.accuracies() for number in (one.value, one.low, one.high)]

    generator = np.random.default_rng(6)
    runs = generator.normal([0.9, 3], [0.004, 0.08], (12, 3, 2)).tolist()
    samples = [
        Sample(tuple(a for a, _ in one), tuple(math.exp(s) for _, s in one), 1e6) for one in runs
    ]
    nudged = [
        Sample(tuple(math.nextafter(a, 1) for a in one.accuracies), one.seconds, 1e6)
        for one in samples
    ]
    found = estimates(samples)
    assert estimates(nudged) == found
    assert found == [float(f"{number:.9g}") for number in found]
    assert len(set(found)) == 12 * 3


def test_nothing_is_estimated_where_nothing_was_repeated() -> None:
    assert true_means(study([0.9] * 12, [1] * 12, 0.004, 4)) is None


def test_the_front_of_equal_trials_is_not_flattered() -> None:
    # tests/benchmarks/selection_bias.py measures many more, of every kind.
    found = measured("equal", trials=40, repeats=3, studies=12)
    (plain, *_), (plain_chosen, *_), _ = found["means"]
    (bias, held, _), (chosen, chosen_held, _), _ = found["estimates"]
    assert plain > 0.25
    assert plain_chosen > 0.7
    assert abs(bias) < 0.1
    assert abs(chosen) < 0.35
    assert held >= 0.93
    assert chosen_held >= 0.85


def test_neither_are_the_good_ones_of_two_clusters() -> None:
    found = measured("clusters", trials=40, repeats=3, studies=12)
    (plain, *_), (plain_chosen, *_), _ = found["means"]
    (bias, held, _), (chosen, *_), _ = found["estimates"]
    assert plain > 0.12
    assert plain_chosen > 0.5
    assert abs(bias) < 0.1
    assert abs(chosen) < 0.35
    assert held >= 0.9
