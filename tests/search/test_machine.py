"""Which workers a run starts, on pretended devices."""

from __future__ import annotations

import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.search.crews import Wanted
from fastrcaps_search.search.estimate import StepCosts
from fastrcaps_search.search.machine import new_crew, staffed
from fastrcaps_search.search.probing import Seen
from fastrcaps_search.store.crews import Crew, KeptCrew

# A trial sees 200 images: in 200 steps of batch 1, or in 20 of batch 10.
STUDY = StudyDefinition.from_dict(
    {
        "name": "s",
        "network": "lenet5",
        "train_images": 100,
        "epochs": 2,
        "boundaries": [1],
        "space": {"lr_policy": ["fixed"], "batch_policy": ["constant"], "batch_size": [1, 10]},
    }
)
ONE, TWO = Crew(1, 2), Crew(2, 1)
ONES = StepCosts({1: 0.01, 10: 0.05})  # trials of 2 s and of 1 s
CARD = StepCosts({1: 0.001, 10: 0.002})


def cpu(**measured: StepCosts) -> Seen:
    return Seen(("cpu",), "a CPU", {{"one": ONE, "two": TWO}[k]: v for k, v in measured.items()})


def cards(*names: str, measured: bool = True) -> Seen:
    return Seen(names, "a card", {Crew(1, 16): CARD} if measured else {})


def test_the_fastest_crew_over_the_studys_assignments_is_chosen() -> None:
    # At batch 1 two workers are faster: 400 images in 3 s. At batch 10 they take 6 s for them,
    # and in the mean of both 4.5 s.
    seen = cpu(one=ONES, two=StepCosts({1: 0.015, 10: 0.3}))
    kept = new_crew(STUDY, Wanted(), seen, cores=2)
    assert kept.images_per_second == pytest.approx({ONE: 200 / 1.5, TWO: 400 / 4.5})
    assert (kept.crew, kept.step_seconds) == (ONE, ONES.seconds)
    machine = staffed(Wanted(), seen, kept, cores=2, left=9)
    assert machine.words == (
        "1 worker with 2 threads (chosen: 1.5x the images/s of 2 workers with 1) on a CPU"
    )
    assert machine.costs == ONES

    twos = StepCosts({1: 0.015, 10: 0.05})  # trials of 3 s and of 1 s
    seen = cpu(one=ONES, two=twos)
    kept = new_crew(STUDY, Wanted(), seen, cores=2)
    assert kept.images_per_second == pytest.approx({ONE: 200 / 1.5, TWO: 400 / 2.0})
    machine = staffed(Wanted(), seen, kept, cores=2, left=9)
    assert machine.words == (
        "2 workers with 1 thread (chosen: 1.5x the images/s of 1 worker with 2) on a CPU"
    )
    assert machine.costs == twos
    assert machine.warning is None


KEPT = KeptCrew(TWO, {1: 0.02}, {ONE: 100.0, TWO: 130.0})


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (9, "2 workers with 1 thread (as before) on a CPU"),
        (2, "2 workers with 1 thread (as before) on a CPU"),
        (1, "1 worker with 1 thread (as before) on a CPU"),
        (0, "1 worker with 1 thread (as before) on a CPU"),
    ],
)
def test_a_later_run_starts_the_same_crew_or_fewer_workers_with_the_same_threads(
    left: int, words: str
) -> None:
    machine = staffed(Wanted(), cpu(), KEPT, cores=2, left=left)
    assert machine.words == words
    assert machine.costs == StepCosts({1: 0.02})
    assert machine.warning is None


@pytest.mark.parametrize("wanted", [Wanted(workers=1), Wanted(workers_per_device=1)])
def test_another_crew_than_the_studys_is_started_with_a_warning(wanted: Wanted) -> None:
    machine = staffed(wanted, cpu(one=ONES), KEPT, cores=2, left=9)
    assert machine.words == "1 worker with 2 threads on a CPU"
    assert machine.costs == ONES
    assert machine.warning == (
        "1 worker with 2 threads on a CPU instead of 2 workers with 1 thread, as the study began "
        "there: its seconds will not compare"
    )


@pytest.mark.parametrize("wanted", [Wanted(workers=2), Wanted(workers_per_device=2)])
def test_the_studys_crew_may_be_asked_for(wanted: Wanted) -> None:
    machine = staffed(wanted, cpu(), KEPT, cores=2, left=1)
    assert machine.words == "2 workers with 1 thread on a CPU"
    assert machine.warning is None


def test_the_first_crew_that_is_asked_for_becomes_the_studys() -> None:
    wanted, seen = Wanted(workers=2), cpu(one=ONES)
    kept = new_crew(STUDY, wanted, seen, cores=8)
    assert kept == KeptCrew(Crew(2, 4), ONES.seconds)
    machine = staffed(wanted, seen, kept, cores=8, left=9)
    assert machine.words == "2 workers with 4 threads on a CPU"
    assert machine.warning is None


@pytest.mark.parametrize(
    ("wanted", "names", "crew", "workers"),
    [
        (Wanted(), ["cuda:0"], Crew(1, 16), 1),
        (Wanted(), ["cuda:0", "cuda:1"], Crew(1, 8), 2),
        (Wanted(workers_per_device=3), ["cuda:0"], Crew(3, 5), 3),
        (Wanted(workers_per_device=3), ["cuda:0", "cuda:1"], Crew(3, 2), 6),
        (Wanted(workers=3), ["cuda:0", "cuda:1"], Crew(2, 5), 3),
    ],
)
def test_one_worker_on_each_card_unless_told_otherwise(
    wanted: Wanted, names: list[str], crew: Crew, workers: int
) -> None:
    seen = cards(*names)
    kept = new_crew(STUDY, wanted, seen, cores=16)
    assert kept == KeptCrew(crew, CARD.seconds)
    machine = staffed(wanted, seen, kept, cores=16, left=99)
    assert (machine.workers, machine.threads) == (workers, crew.threads)
    assert (machine.devices, machine.costs) == (tuple(names), CARD)
    assert (machine.reason, machine.warning) == ("", None)


def test_cards_keep_their_crew_too() -> None:
    kept = KeptCrew(Crew(2, 4), {10: 0.002})
    seen = cards("cuda:0", "cuda:1", measured=False)
    machine = staffed(Wanted(), seen, kept, cores=16, left=99)
    assert machine.words == "4 workers with 4 threads (as before) on a card"
    assert staffed(Wanted(), seen, kept, cores=16, left=3).workers == 3
    one_each = staffed(Wanted(workers_per_device=1), cards("cuda:0"), kept, cores=16, left=99)
    assert one_each.warning == (
        "1 worker with 16 threads on a card instead of 2 workers with 4 threads, as the study "
        "began there: its seconds will not compare"
    )
