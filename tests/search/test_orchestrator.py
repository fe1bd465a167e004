"""From the request to the workers that are started, on pretended devices."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

import fastrcaps_search
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import RunError, StoreError, StudyMismatchError, UsageError
from fastrcaps_search.metrics import EpochMetrics, RunResult, RunSetting
from fastrcaps_search.search import calibrate, orchestrator
from fastrcaps_search.search.launch import WorkerSpec
from fastrcaps_search.search.layouts import DeviceOptions
from fastrcaps_search.search.machine import MachineInfo
from fastrcaps_search.search.options import RunOptions
from fastrcaps_search.search.optuna_export import OptunaExport
from fastrcaps_search.search.orchestrator import Orchestrator, RunObserver
from fastrcaps_search.search.outcome import plan_line
from fastrcaps_search.search.queue import TrialQueue
from fastrcaps_search.search.suggest import propose
from fastrcaps_search.store import schema
from fastrcaps_search.store.calibrations import read_reference
from fastrcaps_search.store.claiming import Claimant
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.layouts import WorkerLayout
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import locate
from fastrcaps_search.store.store import Store
from fastrcaps_search.training.resources import Limit
from tests.store.workers import claimed

STUDY = StudyDefinition.from_dict(
    {
        "name": "s",
        "network": "lenet5",
        "train_images": 64,
        "epochs": 2,
        "boundaries": [1],
        "space": {"batch_policy": ["constant"]},
    }
)
PATIENCE: dict[str, Any] = {"lease_seconds": 30.0, "store_patience": 600.0}
ONE, TWO = WorkerLayout(1, 2), WorkerLayout(2, 1)
METRICS = EpochMetrics(1, 16, 1e-3, 1e-3, 0.5, 0.4, 0.1, 0.8, 0.9, 2.0, 0.1, 4, 64)


class Pretended:
    """Stands in for the probe and for the workers of a machine with two cores.

    Attributes:
        devices: What is here.
        name: Name of the first device.
        version: Of torch.
        measured: Seconds of a step of batch 16 by layout.
        compared: Layouts that were compared since the list was emptied.
        calibrated: Layouts that were calibrated since.
        started: The workers of the last run.
        measures: Called while it calibrates.
        meanwhile: Called while its workers train.
        parting: Why they end with work left, which they never do.
    """

    def __init__(self) -> None:
        self.devices: tuple[str, ...] = ("cpu",)
        self.name = "a CPU"
        self.version = "2.6"
        self.measured = {ONE: 0.1, TWO: 0.12}
        self.compared: list[WorkerLayout] = []
        self.calibrated: list[WorkerLayout] = []
        self.started: list[WorkerSpec] = []
        self.measures: Callable[[], object] = lambda: None
        self.meanwhile: Callable[[], object] = lambda: None
        self.parting = ""

    def __enter__(self) -> Pretended:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was started."""

    def look(self, devices: str) -> MachineInfo:
        kind = self.devices[0].partition(":")[0]
        return MachineInfo(
            self.devices, RunSetting(kind, self.name, self.version, "fp32", 1, "eager-1")
        )

    def compare(
        self, machine: MachineInfo, layouts: list[WorkerLayout]
    ) -> tuple[dict[WorkerLayout, dict[int, float]], str]:
        self.compared += layouts
        return {one: {16: self.measured[one]} for one in layouts}, ""

    def calibrate(
        self, machine: MachineInfo, layouts: list[WorkerLayout]
    ) -> dict[WorkerLayout, dict[str, dict[int, float]]]:
        self.calibrated += layouts
        self.measures()
        return {one: {"only": {16: self.measured.get(one, 0.1)}} for one in layouts}

    def supervisor(self, specs: list[WorkerSpec], **_: object) -> Pretended:
        self.started = specs
        return self

    def run(self) -> None:
        """The workers are not started."""
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pretended:
    made = Pretended()
    monkeypatch.setenv("FASTRCAPS_RUNTIME_DIR", str(tmp_path / "slots"))
    monkeypatch.setattr(calibrate, "Probe", lambda *_, **__: made)
    monkeypatch.setattr(orchestrator, "Supervisor", made.supervisor)
    monkeypatch.setattr(orchestrator, "granted_cores", lambda: Limit(2))
    return made


@pytest.fixture
def run(tmp_path: Path, machine: Pretended) -> Iterator[Callable[..., Orchestrator]]:
    """Starts runs of the study in one database."""
    with ExitStack() as stack:

        def begin(
            trials: int = 4,
            *,
            workers: int | None = None,
            workers_per_device: int | None = None,
            front_runs: int | None = None,
            reference_device: Any = None,  # noqa: ANN401  # what a caller may give
        ) -> Orchestrator:
            location = locate(str(tmp_path / "a.db"))
            devices = DeviceOptions("auto", workers, workers_per_device)
            made = Orchestrator.begin(
                RunOptions(
                    definition=STUDY,
                    trials=trials,
                    location=location,
                    devices=devices,
                    front_runs=front_runs,
                    reference_device=reference_device,
                    **PATIENCE,
                )
            )
            stack.callback(made.close)
            return made

        yield begin


def finish(tmp_path: Path, count: int, *, threads: int = 1, name: str = "a CPU") -> None:
    """Store trials of one epoch each, as a worker would."""
    store = Store.writing(locate(str(tmp_path / "a.db")))
    queue = TrialQueue(
        Claimant(store=store, study=store.study("s"), worker="w", device="cpu"), propose
    )
    setting = RunSetting("cpu", name, "2.6", "fp32", threads, "eager-1")
    for _ in range(count):
        lease = RunLease(store, claimed(queue))
        lease.begin(setting, fresh=True)
        lease.store_epoch(METRICS, setting=setting)
        lease.finish(RunResult(0.9, 2.0, 61_706, 1))
    store.close()


def begun(run: Orchestrator) -> tuple[str, str | None]:
    """Workers in the words of the plan, and the warning; the run is then made."""
    outcome = run.outcome()
    plan = run.plan(RunObserver(), outcome)
    assert f"1 run; {plan.words}; about " in plan_line(plan, outcome)
    run.train(plan, lambda views, heard: None)
    return plan.words, plan.warning


def test_a_study_keeps_the_layout_that_was_chosen_for_it(
    tmp_path: Path, run: Callable[..., Orchestrator], machine: Pretended
) -> None:
    assert begun(run()) == (
        "2 workers with 1 thread (chosen: 1.7x the images/s of 1 worker with 2) on a CPU",
        None,
    )
    assert [(spec.name, spec.device, spec.threads) for spec in machine.started] == [
        ("worker-0", "cpu", 1),
        ("worker-1", "cpu", 1),
    ]
    machine.measured = {ONE: 0.01, TWO: 0.12}  # as another hour might find
    assert begun(run()) == ("2 workers with 1 thread (as before) on a CPU", None)
    # Layouts were compared once, and the chosen one calibrated, and one of its workers alone.
    assert machine.compared == [ONE, TWO]
    assert machine.calibrated == [WorkerLayout(1, 1), TWO]
    finish(tmp_path, 3)
    assert begun(run()) == ("1 worker with 1 thread (as before) on a CPU", None)
    assert [spec.threads for spec in machine.started] == [1]


def test_the_time_left_goes_by_the_steps_that_were_measured_until_a_run_has_ended(
    tmp_path: Path, run: Callable[..., Orchestrator], machine: Pretended
) -> None:
    # Four constant policies take 8 steps of batch 16; WarmAdaBatch takes 64 of batch 1, which last
    # as long, and then as many as 16, 8 or (four times) 4: 45.6 in the mean. Two trials a worker.
    machine.measured = {ONE: 20.0, TWO: 10.0}
    begun = run()
    outcome = begun.outcome()
    assert plan_line(begun.plan(RunObserver(), outcome), outcome).endswith("; about 15 min")
    finish(tmp_path, 2)
    outcome = begun.outcome()
    assert plan_line(begun.plan(RunObserver(), outcome), outcome).endswith("; about 10 s")


def test_stored_seconds_of_a_step_that_are_infinite_end_no_run(
    tmp_path: Path, run: Callable[..., Orchestrator]
) -> None:
    begun(run())
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as connection:
        connection.execute(
            "UPDATE fastrcaps_calibrations "
            """SET step_seconds = '{"only": {"1": Infinity, "16": NaN}}'"""
        )
    again = run()
    outcome = again.outcome()
    line = plan_line(again.plan(RunObserver(), outcome), outcome)
    assert line.endswith("; for an unknown time")


def test_workers_of_two_runs_at_once_have_names_of_their_own(
    run: Callable[..., Orchestrator], machine: Pretended
) -> None:
    names: list[list[str]] = []

    def note() -> None:
        names.append([spec.name for spec in machine.started])
        assert len({spec.log for spec in machine.started}) == len(machine.started)

    def begin_another() -> None:
        note()
        begun(run(workers=3))
        note()

    machine.meanwhile = begin_another
    begun(run())
    begun(run())
    note()
    assert names == [
        ["worker-0", "worker-1"],
        ["worker-2", "worker-3", "worker-4"],
        ["worker-0", "worker-1"],
    ]


def test_another_device_is_measured_on_its_own(
    run: Callable[..., Orchestrator], machine: Pretended
) -> None:
    begun(run())
    machine.name, machine.measured = "another CPU", {ONE: 0.01, TWO: 0.12}
    assert begun(run())[0] == (
        "1 worker with 2 threads (chosen: 6.0x the images/s of 2 workers with 1) on another CPU"
    )
    machine.name = "a CPU"
    assert begun(run())[0] == "2 workers with 1 thread (as before) on a CPU"


def test_what_is_asked_for_is_started_with_a_warning_where_it_differs(
    run: Callable[..., Orchestrator], machine: Pretended
) -> None:
    begun(run())
    words, warning = begun(run(workers=1))
    assert words == "1 worker with 2 threads on a CPU"
    assert warning is not None
    assert warning.startswith("1 worker with 2 threads on a CPU instead of 2 workers with 1 th")
    assert [spec.threads for spec in machine.started] == [2]
    assert machine.calibrated == [WorkerLayout(1, 1), TWO, ONE]
    assert begun(run(workers=2)) == ("2 workers with 1 thread on a CPU", None)
    assert begun(run(workers_per_device=2)) == ("2 workers with 1 thread on a CPU", None)
    assert machine.calibrated == [WorkerLayout(1, 1), TWO, ONE]
    assert begun(run()) == ("2 workers with 1 thread (as before) on a CPU", None)


def test_from_python_the_warning_is_a_warning(
    tmp_path: Path, run: Callable[..., Orchestrator], machine: Pretended
) -> None:
    begun(run())
    storage = str(tmp_path / "a.db")
    warning = "^1 worker with 2 threads on a CPU instead of 2 workers"
    with pytest.warns(UserWarning, match=warning) as told:
        fastrcaps_search.run_study(STUDY, trials=4, storage=storage, workers_per_device=1)
    assert [one.filename for one in told] == [__file__]
    assert [spec.threads for spec in machine.started] == [2]
    fastrcaps_search.run_study(STUDY, trials=4, storage=storage)
    assert [spec.threads for spec in machine.started] == [1, 1]


def test_what_a_study_was_begun_with_stays_its_own(
    run: Callable[..., Orchestrator], machine: Pretended
) -> None:
    assert begun(run(workers=1)) == ("1 worker with 2 threads on a CPU", None)
    assert begun(run()) == ("1 worker with 2 threads (as before) on a CPU", None)


def test_every_card_has_its_workers(run: Callable[..., Orchestrator], machine: Pretended) -> None:
    machine.devices, machine.name = ("cuda:0", "cuda:1"), "a card"
    assert begun(run(trials=9, workers_per_device=2)) == (
        "4 workers with 1 thread on a card",
        None,
    )
    assert [spec.device for spec in machine.started] == ["cuda:0", "cuda:1"] * 2
    assert begun(run(trials=9))[0] == "4 workers with 1 thread (as before) on a card"


def test_one_worker_has_each_card_to_itself(
    run: Callable[..., Orchestrator], machine: Pretended
) -> None:
    machine.devices, machine.name = ("cuda:0", "cuda:1"), "a card"
    assert begun(run())[0] == "2 workers with 1 thread on a card"
    assert [spec.device for spec in machine.started] == ["cuda:0", "cuda:1"]


def test_a_second_worker_on_an_equal_device_measures_nothing(
    run: Callable[..., Orchestrator], machine: Pretended
) -> None:
    begun(run())
    machine.calibrated, machine.compared = [], []
    begun(run())
    assert (machine.calibrated, machine.compared) == ([], [])
    # Another version of torch is another device in this.
    machine.version = "2.7"
    begun(run())
    assert (machine.calibrated, machine.compared) == ([WorkerLayout(1, 1), TWO], [])


def test_the_layout_of_the_first_device_is_what_seconds_count_in(
    tmp_path: Path, run: Callable[..., Orchestrator], machine: Pretended
) -> None:
    begun(run())
    machine.name = "another CPU"
    begun(run())
    with closing(Store.reading(locate(str(tmp_path / "a.db")))) as store:
        study = store.study("s")
        time = store.read(lambda connection: read_reference(connection, study.study_id))
    assert study.reference_device == "a CPU"
    assert time is not None
    assert time.reference.is_of(RunSetting("cpu", "a CPU", "2.6", "fp32", 1, "eager-1"), 2)
    assert [one.setting.device_name for one in time.known] == ["a CPU"] * 2 + ["another CPU"] * 2


def test_nobody_begins_before_a_named_reference_device_is_calibrated(
    tmp_path: Path, run: Callable[..., Orchestrator], machine: Pretended
) -> None:
    # As a run does whose workers are placed elsewhere.
    location = locate(str(tmp_path / "a.db"))
    enter_study(location, STUDY, seed=None, budget=4, reference_device="a card")
    waiting = run()
    line = (
        "^study s counts in seconds of a card, which must be calibrated before a CPU can train "
        "for it; start `fastrcaps-search worker --study s` there first, or name another "
        r"--reference-device before the first trial \(`fastrcaps-search doctor` says what is "
        r"here\)$"
    )
    with pytest.raises(RunError, match=line):
        waiting.plan(RunObserver(), waiting.outcome())
    assert machine.calibrated == []
    machine.devices, machine.name = ("cuda:0",), "a card"
    begun(run())
    machine.devices, machine.name = ("cpu",), "a CPU"
    assert begun(run())[0].endswith("on a CPU")


def reference(tmp_path: Path) -> str | None:
    with closing(Store.reading(locate(str(tmp_path / "a.db")))) as store:
        return store.study("s").reference_device


def test_a_reference_device_that_is_neither_here_nor_calibrated_is_not_stored(
    tmp_path: Path, run: Callable[..., Orchestrator], machine: Pretended
) -> None:
    line = (
        "^the reference device must be what this run trains on, or what was calibrated for the "
        'study, got "a card"; it is a CPU here, as `fastrcaps-search doctor` says, and a study '
        "that is to count in seconds of another machine is begun there by the same line$"
    )
    with pytest.raises(UsageError, match=line):
        run(reference_device="a card")
    assert not (tmp_path / "a.db").exists()
    run()
    assert reference(tmp_path) is None
    # Nor is anything else of such a line.
    with pytest.raises(UsageError, match=line):
        run(trials=9, reference_device="a card")
    assert (reference(tmp_path), run().study.budget) == (None, 4)
    run(reference_device="a CPU")
    machine.devices, machine.name = ("cuda:0",), "a card"
    begun(run(reference_device="a card"))
    machine.devices, machine.name = ("cpu",), "a CPU"
    begun(run())
    assert reference(tmp_path) == "a card"
    # Until a trial has begun, what was calibrated may be named from anywhere.
    run(reference_device="a CPU")
    run(reference_device="a card")
    finish(tmp_path, 1)
    with pytest.raises(StudyMismatchError, match=r"must keep its reference device, a card, as "):
        run(reference_device="a board")


@pytest.mark.parametrize("name", ["", "two\nlines", 3])
def test_a_reference_device_that_cannot_be(run: Callable[..., Orchestrator], name: object) -> None:
    with pytest.raises(UsageError, match=r"^reference_device must be the name of a device, as "):
        run(reference_device=name)


def test_layouts_are_stored_by_device_and_cores(
    tmp_path: Path, run: Callable[..., Orchestrator]
) -> None:
    begun(run())
    store = Store.reading(locate(str(tmp_path / "a.db")))
    (row,) = store.read(lambda connection: list(connection.execute(schema.layouts.select())))
    store.close()
    assert (row.device_name, row.cores, row.workers, row.threads) == ("a CPU", 2, 2, 1)


class Warned(RunObserver):
    """Keeps the warnings, and what is measured."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.measured: list[str] = []

    def measures(self, line: str) -> None:
        self.measured.append(line)

    def warned(self, warning: str) -> None:
        self.warnings.append(warning)


def test_an_export_that_fails_at_the_end_is_a_warning(
    run: Callable[..., Orchestrator], machine: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        monkeypatch.setattr(
            OptunaExport, "add", lambda self: (_ for _ in ()).throw(StoreError("no"))
        )

    machine.meanwhile = refuse
    observer = Warned()
    assert run().run(observer).work.is_searching
    assert observer.warnings == ["Optuna's tables lack trials, which the next run adds: no"]


def test_a_continuous_space_without_more_to_offer_is_done(
    tmp_path: Path, machine: Pretended
) -> None:
    space = {"lr_policy": ["fixed"], "batch_policy": ["constant"], "lr_max": [0.001, 0.1]}
    study = StudyDefinition.from_dict({**STUDY.to_dict(), "space": space})
    machine.meanwhile = lambda: finish(tmp_path, 2)
    options = RunOptions(
        definition=study, trials=4, location=locate(str(tmp_path / "a.db")), **PATIENCE
    )
    with closing(Orchestrator.begin(options)) as orchestrator:
        work = orchestrator.run(RunObserver()).work
    assert (work.is_searching, work.exhausted, work.target) == (False, True, 2)


# WarmAdaBatch has batches of 4 to 128 images after those of 1; 64 stand for all larger ones.
BEGINS = (
    "s: measuring once how fast the CPU trains 1 network at batch sizes 1, 4, 8, 16, 32, 64: "
    "about 10 s or more"
)


def test_what_is_measured_is_said_before_and_after(
    tmp_path: Path, run: Callable[..., Orchestrator], machine: Pretended
) -> None:
    observer, signs = Warned(), []

    def look_at_status() -> None:
        with closing(Store.reading(locate(str(tmp_path / "a.db")))) as store:
            signs.append([(one.worker, one.doing) for one in store.status("s")[1].workers])

    def plan() -> list[str]:
        begun = run()
        observer.measured = []
        begun.plan(observer, begun.outcome())
        return observer.measured

    machine.measures = look_at_status
    assert plan() == [BEGINS, "measured in 1 s: 120.0 ms a step of 16 images"]
    # While it measures it is at work; then it is gone.
    assert signs == [[("calibration", "measures")]]
    look_at_status()
    assert signs[1:] == [[]]
    assert plan() == []
    # What is here is asked first where something was measured before.
    machine.name = "another CPU"
    assert [line.partition(":")[0] for line in plan()] == ["s", "measured in 1 s"]
    machine.devices, machine.name = ("cuda:0",), "a card"
    assert plan()[-1].startswith("measured in 1 s: 100.0 ms a step of 16 images")


def test_nothing_is_measured_for_seconds_of_a_device_that_is_not_there(
    tmp_path: Path, run: Callable[..., Orchestrator], machine: Pretended
) -> None:
    location = locate(str(tmp_path / "a.db"))
    enter_study(location, STUDY, seed=None, budget=4, reference_device="a card")
    observer, waiting = Warned(), run()
    with pytest.raises(RunError, match=r"^study s counts in seconds of a card, "):
        waiting.plan(observer, waiting.outcome())
    assert observer.measured == []


def test_less_than_the_study_is_to_have_is_said_to_change_nothing(
    tmp_path: Path, run: Callable[..., Orchestrator], machine: Pretended
) -> None:
    run(trials=4, front_runs=5)
    for trials, front_runs in ((4, None), (4, 5), (6, 5)):
        observer = Warned()
        run(trials=trials, front_runs=front_runs).run(observer)
        assert observer.warnings == []
    observer = Warned()
    run(trials=3, front_runs=2).run(observer)
    assert observer.warnings == [
        "the study's budget is 6 already; --trials 3 changes nothing",
        "each trial on or near the front is to have 5 runs already; --runs-on-front 2 changes "
        "nothing",
    ]
    with pytest.warns(UserWarning, match=r"^the study's budget is 6 already") as told:
        fastrcaps_search.run_study(STUDY, trials=1, storage=str(tmp_path / "a.db"))
    assert [one.filename for one in told] == [__file__]
