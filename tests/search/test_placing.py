"""How a run keeps the jobs of an engine, which is pretended here."""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import InterruptedRunError, RunError, StudyNotFoundError
from fastrcaps_search.metrics import RunResult
from fastrcaps_search.search import placing
from fastrcaps_search.search.engines import ENGINES, JobState, PlacedJob, WorkerJob
from fastrcaps_search.search.options import RunOptions
from fastrcaps_search.search.orchestrator import Orchestrator, RunObserver
from fastrcaps_search.search.outcome import RunOutcome
from fastrcaps_search.search.placed_worker import jobs_folder
from fastrcaps_search.search.queue import TrialQueue
from fastrcaps_search.search.suggest import propose
from fastrcaps_search.search.supervise import Observer
from fastrcaps_search.store.claiming import Claim, Claimant
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import locate
from fastrcaps_search.store.records import Failure
from fastrcaps_search.store.store import Store
from tests.store.workers import METRICS, SETTING

if TYPE_CHECKING:
    from tests.conftest import Cli

CONTINUOUS = {"lr_policy": ["fixed"], "batch_policy": ["constant"], "lr_max": [0.001, 0.1]}
FINITE = {"lr_policy": ["fixed", "one_cycle"], "batch_policy": ["constant", "adabatch"]}


class Pretended:
    """An engine whose jobs run once they are placed, and end when they are looked at.

    Attributes:
        work: What a job does; whether it fails.
        placed: Jobs so far.
        lingers: Looks for which a job still runs, after it was cancelled, too.
        waits: Whether jobs wait, and go on waiting when they are cancelled, as Ray's do.
        is_down: Whether it does not answer.
        cancelled: Jobs that were, as often as they were.
    """

    name = "pretended"
    options = ("cpus",)

    def __init__(self) -> None:
        self.work: Callable[[], bool] = lambda: False
        self.placed = 0
        self.lingers = 0
        self.waits = self.is_down = False
        self.cancelled: list[str] = []
        self._live: list[str] = []

    def open(self, options: Mapping[str, Sequence[str]]) -> Pretended:
        return self

    def share(self, job: WorkerJob) -> str:
        return f"{job.cores} cores"

    def place(self, job: WorkerJob) -> str:
        self.placed += 1
        self._live.append(str(self.placed))
        return self._live[-1]

    def jobs(self, name: str) -> list[PlacedJob]:
        if self.is_down:
            raise RunError("nobody answers")
        if self.waits:
            return [PlacedJob(id, JobState.WAITING, reason="for room") for id in self._live]
        if self.lingers:
            self.lingers -= 1
            return [PlacedJob(id, JobState.RUNNING, host="there") for id in self._live]
        ended, self._live = self._live, []
        return [
            PlacedJob(id, JobState.ENDED, reason="exit code 1", has_failed=self.work())
            for id in ended
        ]

    def cancel(self, ids: Sequence[str]) -> None:
        self.cancelled += ids
        if not (self.lingers or self.waits):
            self._live = [id for id in self._live if id not in ids]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pretended:
    monkeypatch.setenv("FASTRCAPS_RUNTIME_DIR", str(tmp_path / "slots"))
    monkeypatch.setattr(placing, "POLL_SECONDS", 0.001)
    made = Pretended()
    monkeypatch.setitem(ENGINES._items, made.name, made)
    return made


@contextmanager
def begun(
    folder: Path,
    space: object,
    jobs: int = 1,
    trials: int = 4,
    *,
    detach: bool = False,
    **asked: str,
) -> Iterator[Orchestrator]:
    facts = {"name": "s", "network": "lenet5", "train_images": 64, "epochs": 1, "space": space}
    # No network has to meet the test set in the end.
    facts |= {"evaluate_on": "test"}
    options = RunOptions(
        definition=StudyDefinition.from_dict(facts),
        trials=trials,
        location=locate(str(folder / "a.db")),
        lease_seconds=30.0,
        store_patience=600.0,
        launcher="pretended",
        jobs=jobs,
        detach=detach,
        launcher_options={name: (value,) for name, value in asked.items()},
    )
    with closing(Orchestrator.begin(options)) as made:
        yield made


def train(folder: Path, count: int, *, fails: bool) -> None:
    """What a worker does with so many trials."""
    with Store.writing(locate(str(folder / "a.db"))) as store:
        study = store.study("s")
        claimant = Claimant(store=store, study=study, worker="w", device="cpu")
        queue = TrialQueue(claimant, propose)
        for _ in range(count):
            claim = queue.claim_next()
            if not isinstance(claim, Claim):
                return
            lease = RunLease(store, claim)
            lease.begin(SETTING, fresh=True)
            if fails:
                lease.fail(Failure("E", "no", "", ""), ends_trial=True)
            else:
                lease.store_epoch(METRICS, setting=SETTING)
                lease.finish(RunResult(0.9, 2.0, 61_706, 1))


def run(orchestrator: Orchestrator) -> RunOutcome:
    return orchestrator.run(RunObserver())


def test_a_continuous_space_without_more_to_offer_ends_the_run(
    engine: Pretended, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> bool:
        train(tmp_path, 2, fails=False)
        # Whoever asks from now on.
        monkeypatch.setattr("fastrcaps_search.search.orchestrator.propose", lambda *_: None)
        return False

    engine.work = work
    with begun(tmp_path, CONTINUOUS) as orchestrator:
        done = run(orchestrator)
    assert (done.work.is_done, done.work.exhausted, done.work.target) == (True, True, 2)
    assert (done.parting, engine.placed) == ("", 1)


def test_jobs_that_end_with_failed_trials_are_no_progress(
    engine: Pretended, tmp_path: Path
) -> None:
    def work() -> bool:
        train(tmp_path, 1, fails=True)
        return True

    engine.work = work
    with (
        begun(tmp_path, FINITE) as orchestrator,
        pytest.raises(RunError, match=r"^3 jobs have failed in a row .* \(exit code 1\)"),
    ):
        run(orchestrator)
    assert engine.placed == 3


def test_jobs_that_fail_once_nothing_is_left_leave_the_last_word_to_the_trials(
    engine: Pretended, tmp_path: Path
) -> None:
    def work() -> bool:
        train(tmp_path, 4, fails=True)
        return True

    engine.work = work
    with begun(tmp_path, FINITE, jobs=4) as orchestrator:
        done = run(orchestrator)
    assert (done.work.is_done, done.all_failed, engine.placed) == (True, True, 4)


def test_the_file_with_the_password_goes_with_the_last_job(
    engine: Pretended, tmp_path: Path
) -> None:
    with begun(tmp_path, FINITE):
        """Stored, as no jobs are given back of a study that is not."""
    with begun(tmp_path, FINITE, jobs=0) as orchestrator:
        assert isinstance(orchestrator.options, RunOptions)
        secret = jobs_folder(orchestrator.options, orchestrator.study) / "storage"
        secret.parent.mkdir(parents=True)
        secret.touch()
        assert run(orchestrator).parting == "no job is left"
    assert not secret.exists()


def test_giving_jobs_back_begins_no_study_and_changes_none(
    engine: Pretended, tmp_path: Path
) -> None:
    missing = r'^study "s" must be in .*a\.db for its jobs to be given back, got none of that name'
    with pytest.raises(StudyNotFoundError, match=missing), begun(tmp_path, FINITE, jobs=0):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["slots"]
    with begun(tmp_path, FINITE):
        pass
    with begun(tmp_path, FINITE, jobs=0, trials=9) as orchestrator:
        assert orchestrator.study.budget == 4
        assert run(orchestrator).parting == "no job is left"
    # Nor of one that is defined otherwise, whose jobs they are all the same.
    with begun(tmp_path, CONTINUOUS, jobs=0) as orchestrator:
        assert (
            orchestrator.study.definition.space
            == StudyDefinition.from_dict({"name": "s", "network": "lenet5", "space": FINITE}).space
        )


def test_giving_jobs_back_of_a_study_that_is_done_prints_no_front(
    engine: Pretended, tmp_path: Path, call: Cli
) -> None:
    with begun(tmp_path, FINITE):
        train(tmp_path, 4, fails=False)
    line = ("run", "--study", "s", "--storage", "a.db", "--launcher", "pretended")
    done = call(*line, "--workers", "0")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "s: 4/4 done; no job is left"
    assert "front" not in done.stdout
    assert "front: 4 of 4 finished trials" in call(*line).stdout


class Told(RunObserver):
    """Keeps the lines that are told of jobs."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.stops: threading.Event | None = None

    def _hear(self, line: str) -> None:
        self.lines.append(line)
        if self.stops is not None and line.startswith("waits for"):
            self.stops.set()

    @contextmanager
    def placing(
        self, orchestrator: Orchestrator
    ) -> Iterator[tuple[Callable[[str], None], Observer]]:
        yield self._hear, lambda views, heard: None


def test_jobs_are_given_back_once_and_count_no_more(engine: Pretended, tmp_path: Path) -> None:
    told = Told()
    engine.lingers = 100
    with begun(tmp_path, FINITE, jobs=3, detach=True) as orchestrator:
        assert orchestrator.run(told).parting == "3 jobs left to pretended"
    with begun(tmp_path, FINITE, jobs=1, detach=True) as orchestrator:
        assert orchestrator.run(told).parting == "1 job left to pretended"
    assert sorted(engine.cancelled) == ["2", "3"]
    engine.lingers = 5
    with begun(tmp_path, FINITE, jobs=0) as orchestrator:
        assert orchestrator.run(told).parting == "no job is left"
    assert engine.placed == 3
    lines = [line for line in told.lines if line.startswith("given back")]
    assert lines == ["given back: job 3, job 2", "given back: job 3, job 2, job 1"]


def test_what_waits_is_placed_anew_where_other_options_are_given(
    engine: Pretended, tmp_path: Path, call: Cli
) -> None:
    told = Told()
    engine.waits = True
    for cpus in ("64", "64", "1"):
        with begun(tmp_path, FINITE, detach=True, cpus=cpus) as orchestrator:
            assert orchestrator.run(told).parting == "1 job left to pretended"
    # Only the last line had another number; what it gave back waits on, and counts no more.
    assert (engine.placed, engine.cancelled) == (2, ["1"])
    acts = [line for line in told.lines if line.startswith(("given back", "placed"))]
    assert acts == ["placed: job 1", "given back: job 1", "placed: job 2"]
    seen = call("status", "--study", "s", "--storage", "a.db").stdout.splitlines()
    assert [line for line in seen if " job " in line] == [
        "pretended job 1 was given back",
        "pretended job 2 waits: for room",
    ]
    # They are not waited for, though the engine never lets them go.
    with begun(tmp_path, FINITE, jobs=0) as orchestrator:
        assert orchestrator.run(told).parting == "no job is left"
    assert engine.cancelled == ["1", "2"]


def test_what_fails_again_and_again_leaves_nothing_behind(
    engine: Pretended, tmp_path: Path, call: Cli
) -> None:
    engine.work = lambda: True
    with begun(tmp_path, FINITE) as orchestrator:
        assert isinstance(orchestrator.options, RunOptions)
        secret = jobs_folder(orchestrator.options, orchestrator.study) / "storage"
        with pytest.raises(RunError, match="3 jobs have failed in a row"):
            run(orchestrator)
    assert secret.parent.exists()
    assert not secret.exists()
    seen = call("status", "--study", "s", "--storage", "a.db").stdout
    assert "pretended job" not in seen
    assert "stuck: no worker trains yet" in seen


def test_what_an_engine_that_does_not_answer_has_is_not_said_to_be_nothing(
    engine: Pretended, tmp_path: Path
) -> None:
    engine.is_down = True
    with begun(tmp_path, FINITE) as orchestrator:
        observer = Told()
        observer.stops = orchestrator.stop
        with pytest.raises(InterruptedRunError, match=r"^interrupted; jobs may be left to prete"):
            orchestrator.run(observer)
    assert observer.lines[-1] == "waits for pretended: nobody answers"


def test_a_run_says_what_it_places_and_names_the_trials_as_they_begin_and_end(
    engine: Pretended, tmp_path: Path, call: Cli
) -> None:
    (tmp_path / "s.toml").write_text(
        'name = "s"\nnetwork = "lenet5"\ndata_set = "mnist-mini"\nevaluate_on = "test"\n'
        "epochs = 3\ntrain_images = 64\n"
        '[[configuration]]\nlr_policy = "fixed"\nbatch_policy = "constant"\n'
        '[[configuration]]\nlr_policy = "one_cycle"\nbatch_policy = "constant"\n'
        '[[configuration]]\nlr_policy = "warm_restarts"\nbatch_policy = "constant"\n'
    )

    def work() -> bool:
        train(tmp_path, 1, fails=engine.placed == 2)
        return False

    engine.work = work
    line = ("run", "--study", "s.toml", "--storage", "a.db", "--launcher", "pretended")
    done = call(*line, "--threads", "1")
    here = platform.node()
    assert done.stdout.splitlines()[:13] == [
        "s: 0/3 trials done, 3 to go; lenet5 on mnist-mini, 64 images x 3 epochs x 1 run; "
        "1 worker on pretended, each with 1 cores",
        "0/3 done",
        "placed: job 1",
        f"w on {here}: trial 0 begins: fixed",
        f"w on {here}: trial 0 complete: accuracy 90.00 %, 2.0 s, 61,706 parameters",
        "1/3 done",
        "job 1 ended (exit code 1), placed again as job 2",
        f"w on {here}: trial 1 begins: one_cycle",
        f"w on {here}: trial 1 failed: no",
        "2/3 done",
        "job 2 ended (exit code 1), placed again as job 3",
        f"w on {here}: trial 2 begins: warm_restarts",
        f"w on {here}: trial 2 complete: accuracy 90.00 %, 2.0 s, 61,706 parameters",
    ]
    assert "each with" not in call(*line, "--quiet", "--trials", "3").stdout
