"""The range test really run on the digits of mnist-mini."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
import torch

import fastrcaps_search
from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.definition.load import load_study
from fastrcaps_search.errors import DivergedError, FastrcapsError, UsageError
from fastrcaps_search.training import rate_range
from fastrcaps_search.training.kernels import choose_kernel
from fastrcaps_search.training.policy import training_plan
from fastrcaps_search.training.rate_curve import Ending, RateTest
from fastrcaps_search.training.rate_range import range_test
from fastrcaps_search.training.run import Run
from fastrcaps_search.training.splits import Split, Splits, stage

pytestmark = pytest.mark.slow
MINI = load_study("mnist-mini")


@pytest.fixture(scope="module")
def splits() -> Iterator[Splits]:
    """All of its digits; one thread."""
    threads = torch.get_num_threads()
    yield stage(MINI, device="cpu", threads=1, folder=None)
    torch.set_num_threads(threads)
    torch.set_flush_denormal(False)


@pytest.fixture(scope="module")
def test(splits: Splits) -> RateTest:
    return range_test(MINI, splits, seed=0, steps=300)


def test_the_first_network_of_the_study_is_trained(test: RateTest) -> None:
    assert (test.study, test.network) == ("mnist-mini", "capsnet-narrow")
    assert (test.decoder, test.weight_sharing, test.batch_size) == (Decoder.FULL, False, 16)
    assert (test.seed, test.steps) == (0, 300)
    curve = test.curve
    # At the lowest rate nothing is learned yet: of ten capsules of length 0, the one that is
    # missed costs 0.9^2, and the reconstruction of an untrained decoder about 0.1.
    assert curve.losses[0] == pytest.approx(0.9, abs=0.03)
    assert min(curve.smoothed) < 0.5
    assert curve.ending is Ending.EXPLODED
    assert len(curve.rates) == len(curve.losses) == len(curve.smoothed) < 300
    assert curve.rates[50] / curve.rates[0] == pytest.approx(10 ** (6 * 50 / 299))


def test_the_proposal_is_sensible(test: RateTest) -> None:
    # The paper's range is 1e-4 to 1e-3.
    assert 5e-4 <= test.lr_max <= 3e-3
    assert test.lr_min == pytest.approx(test.lr_max / 10, rel=0.05)
    first, second = test.lines.splitlines()
    assert first == f"lr_max = {test.lr_max}"
    assert second == f"lr_min = {test.lr_min}"


@pytest.mark.timeout(900)  # 1,000 steps
def test_much_higher_rates_train_worse(test: RateTest, splits: Splits) -> None:
    parameters = next(iter(MINI.assignments()))
    losses = []
    for factor in (1, 30, 100):
        study = replace(MINI, epochs=1, lr_min=1e-7, lr_max=factor * test.lr_max)
        kernel = choose_kernel(
            torch.device("cpu"), network=study.network, precision=study.precision
        )
        run = Run(training_plan(study, parameters), seed=0, splits=splits, kernel=kernel)
        try:
            run.train()
            losses.append(run.epochs[-1].loss)
        except DivergedError:
            losses.append(float("inf"))
    # A safety of ten: four times the proposal still trains better, thirty times hardly at all.
    assert losses[0] < 0.35
    assert losses[0] < losses[1] < losses[2]


def test_the_same_seed_and_steps_give_the_same_curve(splits: Splits) -> None:
    few = replace(MINI, train_images=500)  # 32 steps an epoch, the last one of 4 images
    splits = replace(splits, training=replace_images(splits, 500))
    first, again, other = (range_test(few, splits, seed=seed, steps=100) for seed in (1, 1, 2))
    assert first.curve == again.curve
    assert first.curve.losses != other.curve.losses


def replace_images(splits: Splits, count: int) -> Split:
    split = splits.training
    return Split(split.images[:count], split.labels[:count])


def test_a_slow_machine_makes_fewer_steps(splits: Splits, monkeypatch: pytest.MonkeyPatch) -> None:
    lenet = load_study("paper-lenet5")
    lenet = replace(lenet, data_set=MINI.data_set, train_images=500)
    few = replace(splits, training=replace_images(splits, 500))
    monkeypatch.setattr(rate_range, "BUDGET_SECONDS", 0.0)
    monkeypatch.setattr(rate_range, "ENOUGH_STEPS", 200)
    slow = range_test(lenet, few, seed=0)
    assert slow.steps == 200
    assert (slow.decoder, slow.weight_sharing, slow.trained) == (None, None, "lenet5")
    # Trying out how long a step takes has changed nothing.
    assert slow.curve == range_test(lenet, few, seed=0, steps=200).curve
    monkeypatch.setattr(rate_range, "BUDGET_SECONDS", 1e9)
    assert range_test(lenet, few, seed=0).steps == 300


class Toy:
    """Trains nothing: tells the losses that it was given."""

    def __init__(self, losses: Iterable[float]) -> None:
        self._losses = iter(losses)
        self.trained = self

    def epoch(self, epoch: int, sizes: list[int], rates: list[float]) -> Iterator[int]:
        yield from sizes

    def take_sums(self) -> list[float]:
        return [4 * next(self._losses), 0.0, 0.0, 0.0]


def test_a_loss_that_is_not_finite_ends_the_test() -> None:
    losses = [1.0, 0.9, 0.5, float("nan"), 0.1]
    curve = rate_range._curve(Toy(losses), [4, 4], 60)  # type: ignore[arg-type]  # what it uses
    assert curve.ending is Ending.NOT_FINITE
    assert curve.losses == (1.0, 0.9, 0.5)


def test_another_device_and_a_wrong_study_are_refused() -> None:
    with pytest.raises(UsageError, match=r"device must be one of this machine, got tpu; "):
        fastrcaps_search.find_rates("mnist-mini", device="tpu")
    with pytest.raises(FastrcapsError, match="must be a study file or one of"):
        fastrcaps_search.find_rates("mnist-maxi")
