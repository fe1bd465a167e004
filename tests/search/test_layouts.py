from __future__ import annotations

from typing import Any

import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import UsageError
from fastrcaps_search.metrics import RunSetting
from fastrcaps_search.search.layouts import (
    DeviceOptions,
    WorkerPlan,
    candidates,
    choose_layout,
    plan_workers,
)
from fastrcaps_search.search.machine import MachineInfo
from fastrcaps_search.store.layouts import WorkerLayout
from fastrcaps_search.training.resources import Limit

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


@pytest.mark.parametrize(
    ("cores", "most", "layouts"),
    [
        (1, 9, [(1, 1)]),
        (2, 9, [(1, 2), (2, 1)]),
        (3, 9, [(1, 3), (3, 1)]),  # 2 x 1 would leave a core idle
        (4, 9, [(1, 4), (2, 2), (4, 1)]),
        (5, 9, [(1, 5), (2, 2), (4, 1)]),
        (6, 9, [(1, 6), (2, 3), (4, 1)]),
        (8, 9, [(1, 8), (2, 4), (4, 2)]),  # 3 x 2 would leave cores idle
        (16, 9, [(1, 16), (2, 8), (4, 4)]),  # 3 x 5 would leave a core idle
        (64, 9, [(1, 64), (2, 32), (4, 16)]),
        (8, 1, [(1, 8)]),  # a study of one training
        (8, 2, [(1, 8), (2, 4)]),
    ],
)
def test_layouts_worth_comparing(cores: int, most: int, layouts: list[tuple[int, int]]) -> None:
    found = candidates(cores, most=most)
    assert [(layout.workers, layout.threads) for layout in found] == layouts
    assert all(layout.workers * layout.threads <= cores for layout in found)


ONE, TWO, FOUR = WorkerLayout(1, 4), WorkerLayout(2, 2), WorkerLayout(4, 1)


@pytest.mark.parametrize(
    ("rates", "chosen", "why"),
    [
        ({ONE: 100.0, TWO: 130.0}, TWO, "chosen: 1.3x the images/s of 1 worker with 4"),
        ({ONE: 300.0, TWO: 200.0}, ONE, "chosen: 1.5x the images/s of 2 workers with 2"),
        (
            {ONE: 90.0, TWO: 100.0, FOUR: 220.0},
            FOUR,
            "chosen: 2.2x the images/s of 2 workers with 2",
        ),
        # Near ties: more workers, whose trials end at more times.
        ({ONE: 104.0, TWO: 100.0}, TWO, "chosen: about as fast as 1 worker with 4"),
        ({ONE: 106.0, TWO: 100.0}, ONE, "chosen: 1.1x the images/s of 2 workers with 2"),
        ({ONE: 100.0, TWO: 104.0, FOUR: 101.0}, FOUR, "chosen: about as fast as 2 workers with 2"),
        ({ONE: 100.0}, ONE, ""),
    ],
)
def test_the_fastest_is_chosen(
    rates: dict[WorkerLayout, float], chosen: WorkerLayout, why: str
) -> None:
    # Every trial sees 200 images, and a step takes in proportion to its images.
    seconds = {one: {1: one.workers / rate} for one, rate in rates.items()}
    assert choose_layout(STUDY, seconds) == (chosen, why)


def test_workers_are_asked_for_in_all_or_per_device() -> None:
    assert DeviceOptions().layout(2, cores=8) is None
    all_in_all = DeviceOptions(workers=3)
    assert (all_in_all.total(1), all_in_all.total(2)) == (3, 3)
    assert all_in_all.layout(1, cores=8) == WorkerLayout(3, 2)
    assert all_in_all.layout(2, cores=8) == WorkerLayout(
        2, 2
    )  # two on one card and one on the other
    each = DeviceOptions(workers_per_device=3)
    assert (each.total(1), each.total(2)) == (3, 6)
    assert each.layout(1, cores=8) == WorkerLayout(3, 2)
    assert each.layout(2, cores=8) == WorkerLayout(3, 1)
    assert DeviceOptions(workers=16).layout(1, cores=8) == WorkerLayout(16, 1)


def test_threads_are_asked_for_with_workers_or_alone() -> None:
    assert DeviceOptions(workers=3, threads=1).layout(1, cores=8) == WorkerLayout(3, 1)
    # As many workers as have room, like those that are measured at most four.
    on_cpu = [DeviceOptions("cpu", threads=threads) for threads in (1, 3, 8)]
    assert [one.layout(1, cores=8) for one in on_cpu] == [
        WorkerLayout(4, 1),
        WorkerLayout(2, 3),
        WorkerLayout(1, 8),
    ]
    assert DeviceOptions("cuda", threads=3).layout(2, cores=8) == WorkerLayout(1, 3)
    plan = planned(DeviceOptions("cpu", threads=1), left=1)
    assert plan.words == "1 worker with 1 thread on a CPU"


def test_more_threads_than_cores_are_refused_with_what_limits_them() -> None:
    options = DeviceOptions(threads=2)
    options.require_threads(Limit(2))
    line = (
        "^threads must be at most the cores that this command may use, 1 by OMP_NUM_THREADS=1, "
        "got 2; use fewer threads$"
    )
    with pytest.raises(UsageError, match=line):
        options.require_threads(Limit(1, "OMP_NUM_THREADS=1"))


def test_what_limits_the_cores_is_named_whatever_was_asked_for() -> None:
    limit = Limit(2, "SLURM_CPUS_PER_TASK=2")
    plan = planned(cores=limit)
    assert plan.words == (
        "2 workers with 1 thread (as before; cores: 2 by SLURM_CPUS_PER_TASK=2) on a CPU"
    )
    plan = planned(DeviceOptions(workers=2), cores=limit)
    assert plan.words == "2 workers with 1 thread (cores: 2 by SLURM_CPUS_PER_TASK=2) on a CPU"


def test_workers_for_which_there_are_no_cores_are_told() -> None:
    plan = planned(DeviceOptions(workers=9), cores=Limit(2))
    assert plan.warning is not None
    assert plan.warning.endswith(
        "; 9 workers with 1 thread need 9 cores, of which there are 2: some wait while others "
        "train"
    )
    assert planned(DeviceOptions(workers=2), cores=Limit(2)).warning is None


def test_why_layouts_were_left_out_is_said() -> None:
    _, why = choose_layout(STUDY, {ALONE: ONES}, "2 workers would take 2.2 GB, a group allows 2.0")
    assert why == "2 workers would take 2.2 GB, a group allows 2.0"


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"workers": 0}, r"^workers must be a whole number of at least 1, got 0$"),
        ({"threads": 0}, r"^threads must be a whole number of at least 1, got 0$"),
        ({"workers": "two"}, r"^workers must be a whole number of at least 1, got 'two'$"),
        ({"workers_per_device": -1}, "^workers per device must be a whole number of at least 1, "),
        (
            {"workers": 2, "workers_per_device": 3},
            r"^workers must be given for the whole run or per device, got both \(2 and 3\); leave "
            "one of them out$",
        ),
    ],
)
def test_workers_that_cannot_be(given: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError, match=line):
        DeviceOptions(**given)


ALONE, BOTH = WorkerLayout(1, 2), WorkerLayout(2, 1)
ONES = {1: 0.01, 10: 0.05}  # trials of 2 s and of 1 s


def machine(*devices: str, name: str = "a CPU") -> MachineInfo:
    kind = devices[0].partition(":")[0]
    return MachineInfo(devices, RunSetting(kind, name, "2.14", "fp32", 1, "eager-1"))


def planned(
    options: DeviceOptions | None = None,
    stored: WorkerLayout = BOTH,
    *,
    on: MachineInfo | None = None,
    cores: Limit | None = None,
    left: int = 9,
    reason: str = "as before",
) -> WorkerPlan:
    return plan_workers(
        options or DeviceOptions(),
        on or machine("cpu"),
        stored,
        step_seconds={"only": ONES},
        cores=cores or Limit(2),
        left=left,
        reason=reason,
    )


def test_the_fastest_layout_over_the_studys_assignments_is_chosen() -> None:
    # At batch 1 two workers are faster: 400 images in 3 s. At batch 10 they take 6 s for them,
    # and in the mean of both 4.5 s: 400 / 4.5 is less than 200 / 1.5.
    chosen, why = choose_layout(STUDY, {ALONE: ONES, BOTH: {1: 0.015, 10: 0.3}})
    assert planned(stored=chosen, reason=why).words == (
        "1 worker with 2 threads (chosen: 1.5x the images/s of 2 workers with 1) on a CPU"
    )

    # Trials of 3 s and of 1 s.
    chosen, why = choose_layout(STUDY, {ALONE: ONES, BOTH: {1: 0.015, 10: 0.05}})
    plan = planned(stored=chosen, reason=why)
    assert plan.words == (
        "2 workers with 1 thread (chosen: 1.5x the images/s of 1 worker with 2) on a CPU"
    )
    assert plan.step_seconds == {"only": ONES}
    assert plan.warning is None


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (9, "2 workers with 1 thread (as before) on a CPU"),
        (2, "2 workers with 1 thread (as before) on a CPU"),
        (1, "1 worker with 1 thread (as before) on a CPU"),
        (0, "1 worker with 1 thread (as before) on a CPU"),
    ],
)
def test_a_later_run_starts_the_same_layout_or_fewer_workers_with_the_same_threads(
    left: int, words: str
) -> None:
    plan = planned(left=left)
    assert plan.words == words
    assert plan.warning is None


@pytest.mark.parametrize(
    "options", [DeviceOptions(workers=1), DeviceOptions(workers_per_device=1)]
)
def test_another_layout_than_the_studys_is_started_with_a_warning(options: DeviceOptions) -> None:
    plan = planned(options)
    assert plan.words == "1 worker with 2 threads on a CPU"
    assert plan.warning == (
        "1 worker with 2 threads on a CPU instead of 2 workers with 1 thread, as the study began "
        "there: seconds will be computed, not measured, where that makes a difference"
    )


@pytest.mark.parametrize(
    "options", [DeviceOptions(workers=2), DeviceOptions(workers_per_device=2)]
)
def test_the_studys_layout_may_be_asked_for(options: DeviceOptions) -> None:
    plan = planned(options, left=1)
    assert plan.words == "2 workers with 1 thread on a CPU"
    assert plan.warning is None


CARD = machine("cuda:0", name="a card")
CARDS = machine("cuda:0", "cuda:1", name="a card")


@pytest.mark.parametrize(
    ("options", "on", "layout", "workers"),
    [
        (DeviceOptions(), CARD, WorkerLayout(1, 16), 1),
        (DeviceOptions(), CARDS, WorkerLayout(1, 8), 2),
        (DeviceOptions(workers_per_device=3), CARD, WorkerLayout(3, 5), 3),
        (DeviceOptions(workers_per_device=3), CARDS, WorkerLayout(3, 2), 6),
        (DeviceOptions(workers=3), CARDS, WorkerLayout(2, 5), 3),
    ],
)
def test_each_card_has_the_workers_of_the_layout(
    options: DeviceOptions, on: MachineInfo, layout: WorkerLayout, workers: int
) -> None:
    plan = planned(options, layout, on=on, cores=Limit(16), left=99, reason="")
    assert (plan.workers, plan.threads) == (workers, layout.threads)
    assert plan.machine.devices == on.devices
    assert (plan.reason, plan.warning) == ("", None)


def test_cards_keep_their_layout_too() -> None:
    stored = WorkerLayout(2, 4)
    plan = planned(stored=stored, on=CARDS, cores=Limit(16), left=99)
    assert plan.words == "4 workers with 4 threads (as before) on a card"
    assert planned(stored=stored, on=CARDS, cores=Limit(16), left=3).workers == 3
    one_each = DeviceOptions(workers_per_device=1)
    plan = planned(one_each, stored, on=CARD, cores=Limit(16), left=99)
    assert plan.warning == (
        "1 worker with 16 threads on a card instead of 2 workers with 4 threads, as the study "
        "began there: seconds will be computed, not measured, where that makes a difference"
    )
