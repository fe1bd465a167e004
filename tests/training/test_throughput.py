"""Layouts of real processes, whose steps take pretended seconds."""

from __future__ import annotations

import multiprocessing
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.training import device, probe
from fastrcaps_search.training.probe import Network, Question, benchmark
from fastrcaps_search.training.resources import Limit

SIZES = [1, 16]
STUDY = StudyDefinition.from_dict({"name": "s", "network": "lenet5"})
StepOf = Callable[[int], Callable[[], object]]
"""Gives the step of a batch size."""
Make = Callable[[], StepOf]


@dataclass(frozen=True)
class Pretended(Question):
    """Measures pretended steps.

    Attributes:
        make: Makes them in each process.
    """

    make: Make = field(kw_only=True)

    def trainer(self, network: Network) -> Any:  # noqa: ANN401  # what a trainer does here
        return PretendedTrainer(self.make())


@dataclass(frozen=True)
class PretendedTrainer:
    step_of: StepOf

    def warm_up(self, sizes: list[int]) -> None:
        """Nothing to do."""

    def epoch(self, epoch: int, sizes: list[int], rates: list[float]) -> Iterator[int]:
        for size, rate in zip(sizes, rates, strict=True):
            assert rate == 0
            self.step_of(size)()
            yield size


def asked(make: Make, sizes: list[int] = SIZES) -> Question:
    return Pretended(STUDY, "cpu", [(None, None)], sizes, make=make)


class Clock:
    """Stands still but for the steps; each process has a copy of its own."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    sleep = staticmethod(time.sleep)
    monotonic = staticmethod(time.monotonic)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(probe, "time", made)
    monkeypatch.setattr(device, "time", made)
    return made


@pytest.fixture
def make(clock: Clock) -> Make:
    """Steps of a hundredth of a second per image, and a tenth more for each worker before."""
    begun = multiprocessing.get_context("fork").Value("i", 0)

    def made() -> StepOf:
        with begun.get_lock():
            place = begun.value
            begun.value += 1

        def of(size: int) -> Callable[[], object]:
            def step() -> None:
                clock.now += size / 100 + place / 10

            return step

        return of

    return made


def test_seconds_of_a_layout_are_those_at_which_its_workers_do_as_many_steps(make: Make) -> None:
    (one, two), left_out = benchmark([(1, 2), (2, 1)], asked(make))
    assert left_out == ""
    assert one[:2] == (1, 2)
    assert one[2] == [pytest.approx({1: 0.01, 16: 0.16})]
    # The second and the third process: 0.11 and 0.21 s, 0.26 and 0.36 s. In a second both together
    # do 1 / 0.11 + 1 / 0.21 steps.
    assert two[:2] == (2, 1)
    assert two[2] == [pytest.approx({1: 2 / (1 / 0.11 + 1 / 0.21), 16: 2 / (1 / 0.26 + 1 / 0.36)})]


def test_the_fastest_window_passes_over_steps_that_were_disturbed(clock: Clock) -> None:
    # One step to begin with, and one that says how many fill a window of 0.03 s: two. Then twelve
    # windows, of which the last has no disturbance.
    seconds = iter([9.0, 0.015, *[0.015, 0.25] * 11, 0.014, 0.014])

    def of(size: int) -> Callable[[], object]:
        # What keeps others busy afterwards finds none.
        return lambda: setattr(clock, "now", clock.now + next(seconds, 0.0))

    ((found,), _) = benchmark([(1, 1)], asked(lambda: of, [1]))
    assert found[2] == [pytest.approx({1: 0.014})]


def test_of_long_steps_few_are_made(clock: Clock) -> None:
    made = multiprocessing.get_context("fork").Value("i", 0)

    def of(size: int) -> Callable[[], object]:
        def step() -> None:
            made.value += 1
            clock.now += 2.0

        return step

    ((found,), _) = benchmark([(1, 1)], asked(lambda: of, [1]))
    assert found[2] == [pytest.approx({1: 2.0})]
    assert made.value == 4


def test_workers_train_at_the_same_time_with_the_threads_of_their_layout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe, "WINDOW_SECONDS", 0.0)
    meeting = multiprocessing.get_context("fork").Barrier(2)

    def make() -> StepOf:
        if torch.get_num_threads() != 3:
            raise ValueError(f"{torch.get_num_threads()} threads")
        met: set[int] = set()

        def of(size: int) -> Callable[[], object]:
            def step() -> None:
                # The first one ends only when the other worker is in its first one too.
                if size not in met:
                    met.add(size)
                    meeting.wait(60)

            return step

        return of

    found, _ = benchmark([(2, 3)], asked(make, [1, 2]))
    assert [one[:2] for one in found] == [(2, 3)]


def test_a_worker_that_has_measured_trains_on_until_the_others_have(clock: Clock) -> None:
    context = multiprocessing.get_context("fork")
    begun, done = context.Value("i", 0), context.Event()
    enough = 50

    def make() -> StepOf:
        with begun.get_lock():
            begun.value += 1
            is_first = begun.value == 1
        steps = 0

        def step() -> None:
            nonlocal steps
            steps += 1
            clock.now += 1
            if is_first and steps == enough:
                done.set()
            # The other one is not done before this one has made more steps than it measures.
            if not is_first and not done.wait(60):
                raise TimeoutError

        return lambda size: step

    found, _ = benchmark([(2, 1)], asked(make, [1]))
    assert [one[:2] for one in found] == [(2, 1)]


@pytest.mark.parametrize("end", [lambda: os._exit(9), lambda: 1 / 0], ids=["dies", "fails"])
def test_a_layout_that_cannot_live_is_left_out(end: Callable[[], object], clock: Clock) -> None:
    begun = multiprocessing.get_context("fork").Value("i", 0)

    def make() -> StepOf:
        with begun.get_lock():
            begun.value += 1
            place = begun.value

        def step() -> None:
            clock.now += 1
            if place == 3:
                end()

        return lambda size: step

    layouts = [(1, 4), (2, 2), (4, 1)]
    found, left_out = benchmark(layouts, asked(make, [1]))
    assert (found, left_out) == ([(1, 4, [{1: 1.0}])], "2 workers could not train together")


def test_a_layout_that_would_not_fit_into_the_memory_is_not_tried(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "memory", lambda: Limit(1, "the memory limit of /a/group"))
    (one,), left_out = benchmark([(1, 2), (2, 1)], asked(make))
    assert one[:2] == (1, 2)
    assert re.fullmatch(
        r"2 workers would take \d+\.\d GB, the memory limit of /a/group allows 0\.0", left_out
    )


def test_why_the_first_layout_could_not_train_is_told_in_the_last_line(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def broken() -> StepOf:
        raise ValueError("no such network")

    assert benchmark([(1, 1)], asked(broken, [1]))[0] == []
    assert capfd.readouterr().err.splitlines()[-1] == "ValueError: no such network"
    assert benchmark([(1, 1)], asked(lambda: os._exit(9), [1]))[0] == []
    assert capfd.readouterr().err == "exit code 9\n"


def test_no_process_is_left_behind(make: Make) -> None:
    benchmark([(2, 1)], asked(make))
    assert multiprocessing.active_children() == []
