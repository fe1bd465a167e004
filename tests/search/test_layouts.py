from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import UsageError
from fastrcaps_search.search.layouts import (
    DeviceOptions,
    MachineInfo,
    candidates,
    choose_layout,
    plan_workers,
)
from fastrcaps_search.store.layouts import StoredLayout, WorkerLayout
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
    machine = MachineInfo(("cpu",), "a CPU", seconds)
    stored, found = choose_layout(STUDY, DeviceOptions(), machine, cores=4)
    assert stored == StoredLayout(chosen, seconds[chosen])
    assert found == why


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
    assert (
        plan_workers(DeviceOptions("cpu", threads=1), cpu(), STORED, cores=Limit(2), left=1).words
        == "1 worker with 1 thread on a CPU"
    )


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
    plan = plan_workers(DeviceOptions(), cpu(), STORED, cores=limit, left=9)
    assert plan.words == (
        "2 workers with 1 thread (as before; cores: 2 by SLURM_CPUS_PER_TASK=2) on a CPU"
    )
    plan = plan_workers(DeviceOptions(workers=2), cpu(), STORED, cores=limit, left=9)
    assert plan.words == "2 workers with 1 thread (cores: 2 by SLURM_CPUS_PER_TASK=2) on a CPU"


def test_why_layouts_were_left_out_is_said() -> None:
    seen = replace(cpu(one=ONES), left_out="2 workers would take 2.2 GB, a group allows 2.0")
    _, why = choose_layout(STUDY, DeviceOptions(), seen, cores=2)
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
CARD = {1: 0.001, 10: 0.002}


def cpu(**measured: dict[int, float]) -> MachineInfo:
    return MachineInfo(
        ("cpu",), "a CPU", {{"one": ALONE, "two": BOTH}[k]: v for k, v in measured.items()}
    )


def cards(*names: str, measured: bool = True) -> MachineInfo:
    return MachineInfo(names, "a card", {WorkerLayout(1, 16): CARD} if measured else {})


def test_the_fastest_layout_over_the_studys_assignments_is_chosen() -> None:
    # At batch 1 two workers are faster: 400 images in 3 s. At batch 10 they take 6 s for them,
    # and in the mean of both 4.5 s: 400 / 4.5 is less than 200 / 1.5.
    seen = cpu(one=ONES, two={1: 0.015, 10: 0.3})
    stored, why = choose_layout(STUDY, DeviceOptions(), seen, cores=2)
    assert (stored.layout, stored.step_seconds) == (ALONE, ONES)
    plan = plan_workers(DeviceOptions(), seen, stored, cores=Limit(2), left=9, reason=why)
    assert plan.words == (
        "1 worker with 2 threads (chosen: 1.5x the images/s of 2 workers with 1) on a CPU"
    )
    assert plan.step_seconds == ONES

    twos = {1: 0.015, 10: 0.05}  # trials of 3 s and of 1 s
    seen = cpu(one=ONES, two=twos)
    stored, why = choose_layout(STUDY, DeviceOptions(), seen, cores=2)
    plan = plan_workers(DeviceOptions(), seen, stored, cores=Limit(2), left=9, reason=why)
    assert plan.words == (
        "2 workers with 1 thread (chosen: 1.5x the images/s of 1 worker with 2) on a CPU"
    )
    assert plan.step_seconds == twos
    assert plan.warning is None


STORED = StoredLayout(BOTH, {1: 0.02})


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
    plan = plan_workers(DeviceOptions(), cpu(), STORED, cores=Limit(2), left=left)
    assert plan.words == words
    assert plan.step_seconds == {1: 0.02}
    assert plan.warning is None


@pytest.mark.parametrize(
    "options", [DeviceOptions(workers=1), DeviceOptions(workers_per_device=1)]
)
def test_another_layout_than_the_studys_is_started_with_a_warning(options: DeviceOptions) -> None:
    plan = plan_workers(options, cpu(one=ONES), STORED, cores=Limit(2), left=9)
    assert plan.words == "1 worker with 2 threads on a CPU"
    assert plan.step_seconds == ONES
    assert plan.warning == (
        "1 worker with 2 threads on a CPU instead of 2 workers with 1 thread, as the study began "
        "there: its seconds will not compare"
    )


@pytest.mark.parametrize(
    "options", [DeviceOptions(workers=2), DeviceOptions(workers_per_device=2)]
)
def test_the_studys_layout_may_be_asked_for(options: DeviceOptions) -> None:
    plan = plan_workers(options, cpu(), STORED, cores=Limit(2), left=1)
    assert plan.words == "2 workers with 1 thread on a CPU"
    assert plan.warning is None


def test_the_first_layout_that_is_asked_for_becomes_the_studys() -> None:
    options, seen = DeviceOptions(workers=2), cpu(one=ONES)
    stored, why = choose_layout(STUDY, options, seen, cores=8)
    assert stored == StoredLayout(WorkerLayout(2, 4), ONES)
    plan = plan_workers(options, seen, stored, cores=Limit(8), left=9, reason=why)
    assert plan.words == "2 workers with 4 threads on a CPU"
    assert plan.warning is None


@pytest.mark.parametrize(
    ("options", "names", "layout", "workers"),
    [
        (DeviceOptions(), ["cuda:0"], WorkerLayout(1, 16), 1),
        (DeviceOptions(), ["cuda:0", "cuda:1"], WorkerLayout(1, 8), 2),
        (DeviceOptions(workers_per_device=3), ["cuda:0"], WorkerLayout(3, 5), 3),
        (DeviceOptions(workers_per_device=3), ["cuda:0", "cuda:1"], WorkerLayout(3, 2), 6),
        (DeviceOptions(workers=3), ["cuda:0", "cuda:1"], WorkerLayout(2, 5), 3),
    ],
)
def test_one_worker_on_each_card_unless_told_otherwise(
    options: DeviceOptions, names: list[str], layout: WorkerLayout, workers: int
) -> None:
    seen = cards(*names)
    stored, why = choose_layout(STUDY, options, seen, cores=16)
    assert stored == StoredLayout(layout, CARD)
    plan = plan_workers(options, seen, stored, cores=Limit(16), left=99, reason=why)
    assert (plan.workers, plan.threads) == (workers, layout.threads)
    assert (plan.machine.devices, plan.step_seconds) == (tuple(names), CARD)
    assert (plan.reason, plan.warning) == ("", None)


def test_cards_keep_their_layout_too() -> None:
    stored = StoredLayout(WorkerLayout(2, 4), {10: 0.002})
    seen = cards("cuda:0", "cuda:1", measured=False)
    plan = plan_workers(DeviceOptions(), seen, stored, cores=Limit(16), left=99)
    assert plan.words == "4 workers with 4 threads (as before) on a card"
    assert plan_workers(DeviceOptions(), seen, stored, cores=Limit(16), left=3).workers == 3
    one_each = plan_workers(
        DeviceOptions(workers_per_device=1), cards("cuda:0"), stored, cores=Limit(16), left=99
    )
    assert one_each.warning == (
        "1 worker with 16 threads on a card instead of 2 workers with 4 threads, as the study "
        "began there: its seconds will not compare"
    )
