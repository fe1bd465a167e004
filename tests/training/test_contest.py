"""Crews of real processes, whose steps take pretended seconds."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable

import pytest
import torch

from fastrcaps_search.training import contest as module
from fastrcaps_search.training.contest import Measured, StepOf, contest

SIZES = [1, 16]
Make = Callable[[], StepOf]


class Clock:
    """Stands still but for the steps; each process has a copy of its own."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
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


def test_seconds_of_a_crew_are_those_at_which_its_workers_do_as_many_steps(make: Make) -> None:
    one, two = contest([(1, 2), (2, 1)], SIZES, largest=16, make=make)
    assert (one.workers, one.threads) == (1, 2)
    assert one.step_seconds == pytest.approx({1: 0.01, 16: 0.16})
    # The second and the third process: 0.11 and 0.21 s, 0.26 and 0.36 s. In a second both together
    # do 1 / 0.11 + 1 / 0.21 steps.
    assert (two.workers, two.threads) == (2, 1)
    assert two.step_seconds == pytest.approx(
        {1: 2 / (1 / 0.11 + 1 / 0.21), 16: 2 / (1 / 0.26 + 1 / 0.36)}
    )


def test_the_median_passes_over_a_step_that_was_disturbed(clock: Clock) -> None:
    def of(size: int) -> Callable[[], object]:
        seconds = iter([0.1, 0.25, 0.1, 0.1])
        return lambda: setattr(clock, "now", clock.now + next(seconds))

    (found,) = contest([(1, 1)], [1], largest=1, make=lambda: of)
    assert found.step_seconds == pytest.approx({1: 0.1})


def test_workers_train_at_the_same_time_with_the_threads_of_their_crew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WINDOW_SECONDS", 0.0)
    meeting = multiprocessing.get_context("fork").Barrier(2)

    def make() -> StepOf:
        if torch.get_num_threads() != 3:
            raise ValueError(f"{torch.get_num_threads()} threads")
        # The one step of each ends only when the other one is in its step too.
        return lambda size: lambda: meeting.wait(60)

    found = contest([(2, 3)], [1, 2], largest=2, make=make)
    assert [(one.workers, one.threads) for one in found] == [(2, 3)]


def test_a_crew_that_memory_has_no_room_for_is_left_out(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(room: int | None, largest: int) -> list[int]:
        # A process has 100 bytes with its network and 150 after training batches of 16.
        figures = iter([100, 150] * 9)
        monkeypatch.setattr(module, "_bytes_at_most", lambda: next(figures))
        monkeypatch.setattr(module, "available_bytes", lambda: room)
        crews = [(1, 4), (2, 2), (4, 1)]
        return [one.workers for one in contest(crews, SIZES, largest=largest, make=make)]

    assert measured(600, 16) == [1, 2, 4]
    assert measured(599, 16) == [1, 2]
    assert measured(299, 16) == [1]
    # Batches of 64 need four times what training has added: 300 bytes.
    assert measured(1200, 64) == [1, 2, 4]
    assert measured(1199, 64) == [1, 2]
    assert measured(0, 16) == [1]  # one worker there must be
    assert measured(None, 64) == [1, 2, 4]


@pytest.mark.parametrize("end", [lambda: os._exit(9), lambda: 1 / 0], ids=["dies", "fails"])
def test_a_crew_that_cannot_live_is_left_out(end: Callable[[], object], clock: Clock) -> None:
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

    crews = [(1, 4), (2, 2), (4, 1)]
    assert contest(crews, [1], largest=1, make=make) == [Measured(1, 4, {1: 1.0})]


def test_a_first_crew_that_cannot_live_is_an_error() -> None:
    def broken() -> StepOf:
        raise ValueError("no such network")

    with pytest.raises(RuntimeError, match=r"^ValueError: no such network$"):
        contest([(1, 1)], [1], largest=1, make=broken)
    with pytest.raises(RuntimeError, match="a process that measured a training step died"):
        contest([(1, 1)], [1], largest=1, make=lambda: os._exit(9))


def test_no_process_is_left_behind(make: Make) -> None:
    contest([(2, 1)], SIZES, largest=16, make=make)
    assert multiprocessing.active_children() == []
