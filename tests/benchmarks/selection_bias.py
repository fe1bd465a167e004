"""Bias and intervals of repeated trials, on studies whose true means are known.

    python -m tests.benchmarks.selection_bias                      # all of them: an hour
    python -m tests.benchmarks.selection_bias --scenario equal --trials 40 --repeats 5
    python -m tests.benchmarks.selection_bias --trials 12 40 --repeats 2 5 --studies 60

The last one takes two minutes of one core; its output is kept in ``reports/benchmarks``.

Each study runs every trial once and repeats those on or near its front as ``run --runs-on-front
R`` does, or begins to do (``--made K``: the first K repeats only; ``--degrees 1``: estimates from
the first repeat on, where the product waits for more). Printed are, for the trials with
repeats on the final front and for the one that ``select --prefer accuracy`` names: mean error of
the accuracy in deviations of one run, and the share of the 95 % intervals that hold the true mean;
then the root mean square error of accuracy and log seconds on the front, in deviations of one run;
of the plain means of the runs (Student's t), of the means without the first run, and of the
estimates that the product uses.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastrcaps_search.front import groups
from fastrcaps_search.front.dominance import front_mask
from fastrcaps_search.front.estimates import NEAR, Estimate, front_probabilities, true_means
from fastrcaps_search.front.spread import Sample, spread

Array = NDArray[np.float64]
Generator = np.random.Generator

LOG_NOISE = 0.08
"""Deviation of log seconds from run to run."""

CORRELATION = 0.3
"""Of accuracy and log seconds from run to run."""

LEVEL = 0.9
"""Accuracy that the true ones lie about; low enough for none to reach 1."""

SCENARIOS: dict[str, Callable[[Array, Generator], Array]] = {
    "equal": lambda time, g: np.zeros(len(time)),
    "as noise": lambda time, g: g.normal(0, 1, len(time)),
    "wide": lambda time, g: g.normal(0, 6, len(time)),
    "clusters": lambda time, g: (
        g.normal(0, 0.1, len(time)) - 10 * (np.arange(len(time)) >= len(time) // 2)
    ),
    "long tail": lambda time, g: np.where(
        g.random(len(time)) < 0.6, g.normal(0, 0.5, len(time)), -g.exponential(15, len(time))
    ),
    "rising": lambda time, g: g.normal(0, 1, len(time)) + 3 * (time - 1),
}
"""True accuracies in deviations of one run, given log seconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """A finished study: the runs of its trials, and their true accuracies and log seconds."""

    samples: tuple[Sample, ...]
    accuracies: Array
    times: Array
    noise: float


def finished_study(
    scenario: str,
    *,
    trials: int,
    repeats: int,
    noise: float,
    generator: Generator,
    made: float = math.inf,
) -> Study:
    """Run every trial once, and those on or near the front so many times."""
    time = generator.uniform(0, 1.5, trials) + generator.choice([0, 0.4], trials)
    accuracies = LEVEL + noise * SCENARIOS[scenario](time, generator)
    parameters = generator.choice([6_706_304.0, 6_780_032.0, 8_142_000.0, 8_215_728.0], trials)
    deviations = np.array([noise, LOG_NOISE])
    covariance = np.outer(deviations, deviations) * [[1, CORRELATION], [CORRELATION, 1]]
    runs = generator.multivariate_normal([0, 0], covariance, (trials, repeats))
    runs += np.stack([accuracies, 3 + time], axis=1)[:, None]
    runs[..., 0] = np.clip(runs[..., 0], 0, 1)
    counts = np.ones(trials, dtype=np.int64)
    while True:
        left = made - (counts - 1).sum()
        samples = tuple(
            Sample(tuple(one[:n, 0].tolist()), tuple(np.exp(one[:n, 1]).tolist()), float(size))
            for one, n, size in zip(runs, counts, parameters, strict=True)
        )
        short = near(samples) & (counts < repeats)
        if not short.any() or left <= 0:
            return Study(samples, accuracies, 3 + time, noise)
        next_ones = np.flatnonzero(short & (counts == counts[short].min()))
        counts[next_ones[: int(min(left, trials))]] += 1


def near(samples: tuple[Sample, ...]) -> NDArray[np.bool_]:
    """Which trials are on the front or may well belong there."""
    accuracies, seconds = estimates(samples)
    found = on_front([one.value for one in accuracies], seconds, samples)
    probabilities = front_probabilities(samples, draws=200)
    return found if probabilities is None else found | (np.array(probabilities) >= NEAR)


def on_front(
    accuracies: Iterable[float], seconds: Iterable[float], samples: tuple[Sample, ...]
) -> NDArray[np.bool_]:
    """Which trials are on the front by these values."""
    sizes = [one.parameters for one in samples]
    return front_mask(np.column_stack([-np.array([*accuracies]), np.array([*seconds]), sizes]))


def plain(samples: tuple[Sample, ...], first: int = 0) -> tuple[list[Estimate], list[float]]:
    """Means of the runs from the first one on, where there are any, with Student's t."""
    accuracies, seconds = [], []
    for one in samples:
        kept = one.accuracies[first:] or one.accuracies
        over = spread(kept)
        low, high = (-math.inf, math.inf) if over is None else (over.low, over.high)
        accuracies.append(Estimate(sum(kept) / len(kept), low, high))
        times = one.seconds[first:] or one.seconds
        seconds.append(sum(times) / len(times))
    return accuracies, seconds


def estimates(samples: tuple[Sample, ...]) -> tuple[list[Estimate], list[float]]:
    """What the product says."""
    means = true_means(samples)
    if means is None or not means.has_prior:
        return plain(samples)
    return means.accuracies(), [one.values[1] for one in samples]


METHODS: dict[str, Callable[[tuple[Sample, ...]], tuple[list[Estimate], list[float]]]] = {
    "means": plain,
    "without first": lambda samples: plain(samples, 1),
    "estimates": estimates,
}


def errors(study: Study, method: str) -> tuple[Array, Array | None]:
    """Errors [m, 3] of the front and [3] of the chosen trial.

    In deviations of one run, whether the interval holds the truth, and that of log seconds.
    """
    accuracies, seconds = METHODS[method](study.samples)
    front = on_front([one.value for one in accuracies], seconds, study.samples)
    rows = np.flatnonzero(front & [len(one.seconds) > 1 for one in study.samples])
    late = (np.log(seconds) - study.times) / LOG_NOISE
    found = [(accuracies[row], study.accuracies[row], late[row]) for row in rows]
    table = np.array(
        [((e.value - true) / study.noise, e.low <= true <= e.high, gap) for e, true, gap in found]
    ).reshape(-1, 3)
    if not len(rows):
        return table, None
    return table, table[int(np.argmax([one.value for one, _, _ in found]))]


def measured(
    scenario: str,
    *,
    trials: int,
    repeats: int,
    studies: int,
    noise: float = 0.003,
    seed: int = 0,
    made: float = math.inf,
) -> dict[str, tuple[Array, Array, Array]]:
    """By method: means of :func:`errors`, front and chosen one, and root mean squares, front."""
    generator = np.random.default_rng([seed, trials, repeats, *scenario.encode()])
    tables: dict[str, list[tuple[Array, Array | None]]] = {method: [] for method in METHODS}
    for _ in range(studies):
        study = finished_study(
            scenario, trials=trials, repeats=repeats, noise=noise, generator=generator, made=made
        )
        for method, found in tables.items():
            found.append(errors(study, method))
    return {
        method: (
            np.concatenate([table for table, _ in found]).mean(axis=0),
            np.array([chosen for _, chosen in found if chosen is not None]).mean(axis=0),
            np.sqrt(np.concatenate([table**2 for table, _ in found]).mean(axis=0)),
        )
        for method, found in tables.items()
    }


def main() -> None:
    """Print a line for each scenario, size and method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenario", choices=SCENARIOS)
    parser.add_argument("--trials", type=int, nargs="+", default=[12, 40, 100])
    parser.add_argument("--repeats", type=int, nargs="+", default=[2, 3, 5])
    parser.add_argument("--studies", type=int, default=100)
    parser.add_argument("--noise", type=float, default=0.003)
    parser.add_argument("--made", type=float, default=math.inf, help="stop after K repeats")
    parser.add_argument("--degrees", type=int, default=groups.FEWEST_DEGREES, help="for a prior")
    given = parser.parse_args()
    groups.FEWEST_DEGREES = given.degrees
    print(f"{given.studies} studies each; bias in deviations of one run ({given.noise:g})")
    for scenario in [given.scenario] if given.scenario else SCENARIOS:
        for trials in given.trials:
            for repeats in given.repeats:
                found = measured(
                    scenario,
                    trials=trials,
                    repeats=repeats,
                    studies=given.studies,
                    noise=given.noise,
                    made=given.made,
                )
                for method, (front, chosen, squares) in found.items():
                    print(
                        f"{scenario:9}  {trials:3} trials  {repeats} runs  {method:13}  "
                        f"front {front[0]:+.2f}, {100 * front[1]:3.0f} % hold  "
                        f"chosen {chosen[0]:+.2f}, {100 * chosen[1]:3.0f} % hold  "
                        f"rms {squares[0]:.2f}, seconds {squares[2]:.2f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
