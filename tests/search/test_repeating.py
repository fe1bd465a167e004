"""Repeats of complete trials, trained for real; networks that are kept and removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch

from fastrcaps_search.analysis.front import front_numbers
from fastrcaps_search.analysis.remaining_work import untested_front
from fastrcaps_search.data.shipped import MNIST_MINI
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import CheckpointError, DivergedError, InterruptedRunError
from fastrcaps_search.metrics import EpochMetrics
from fastrcaps_search.search import files
from fastrcaps_search.search.checkpoints import CheckpointCollector
from fastrcaps_search.search.queue import Idle, TrialQueue
from fastrcaps_search.search.runs import read_test_set, train_run
from fastrcaps_search.search.suggest import propose
from fastrcaps_search.search.workplace import Workplace
from fastrcaps_search.store.claiming import Claimant
from fastrcaps_search.store.ending import mark_removed
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location, locate
from fastrcaps_search.store.records import Purpose, RunKey, StudyRecord, TrialState
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord
from fastrcaps_search.training.run import Run
from fastrcaps_search.training.splits import Split, Splits, make_splits
from tests.store.workers import claimed

BASE = {
    "name": "tiny",
    "network": "lenet5",
    "data_set": "mnist-mini",
    "epochs": 2,
    "boundaries": [1],
    "train_images": 400,
}
SEARCH = StudyDefinition.from_dict({**BASE, "space": {"adabatch_exponent": [2, 3]}})


@pytest.fixture(scope="module")
def splits() -> Splits:
    whole = make_splits(SEARCH, MNIST_MINI.load(folder=None), device=torch.device("cpu"))
    few = Split(whole.evaluation.images[:200], whole.evaluation.labels[:200])
    return replace(whole, evaluation=few, test=few)


class Site:
    """A study, and a worker that does what the door says in this process."""

    def __init__(self, location: Location, definition: StudyDefinition, splits: Splits) -> None:
        self.location = location
        self.study: StudyRecord = enter_study(location, definition, seed=None, budget=1)
        self.store = Store.writing(location)
        self.splits = splits

    def plan(self, *, repeats: int = 0, budget: int = 1) -> None:
        definition = self.study.definition
        enter_study(self.location, definition, seed=None, budget=budget, front_runs=repeats)

    def claim(self, purpose: Purpose = Purpose.TRAIN) -> RunLease:
        claimant = Claimant(store=self.store, study=self.study, worker="w", device="cpu")
        return RunLease(self.store, claimed(TrialQueue(claimant, propose), purpose))

    def place(self, should_stop: Callable[[], bool] = lambda: False) -> Workplace:
        def tell(event: str, **facts: Any) -> None:  # noqa: ANN401  # any facts
            """Nobody listens."""

        return Workplace(
            self.study, self.splits, lambda before: before or 1, tell, should_stop, lambda: False
        )

    def record(self, number: int = 0) -> TrialRecord:
        return self.store.trials(self.study, epochs=True)[number]

    def train(self) -> None:
        lease = self.claim()
        train_run(self.place(), lease)
        key = lease.claim.key
        assert self.record(key.number).runs[key.run].accuracy is not None

    def repeat(self, should_stop: Callable[[], bool] = lambda: False) -> int:
        """Train one more run; its index."""
        lease = self.claim()
        key = lease.claim.key
        assert key.run >= self.study.definition.runs_per_trial
        try:
            train_run(self.place(should_stop), lease)
        finally:
            lease.release()
        return key.run

    def test(self) -> None:
        """Read the test set by the next run."""
        lease = self.claim(Purpose.TEST)
        try:
            read_test_set(self.place(), lease)
        finally:
            lease.release()

    def sql(self, text: str) -> None:
        self.store.write(lambda connection: connection.exec_driver_sql(text))

    def weights(self, number: int) -> list[str]:
        folder = files.trial_folder(self.location, self.study, number)
        return sorted(
            str(path.relative_to(folder)) for path in folder.rglob("*.weights.safetensors")
        )


@pytest.fixture
def make(tmp_path: Path, splits: Splits) -> Iterator[Callable[[StudyDefinition], Site]]:
    torch.set_num_threads(1)
    made: list[Site] = []

    def one(definition: StudyDefinition = SEARCH) -> Site:
        location = locate(str(tmp_path / str(len(made)) / "fastrcaps.db"))
        made.append(Site(location, definition, splits))
        return made[-1]

    yield one
    for site in made:
        site.store.close()


def figures(record: TrialRecord, run: int) -> list[EpochMetrics]:
    return [
        replace(epoch.metrics, training_seconds=0.0, evaluation_seconds=0.0)
        for epoch in record.epochs
        if epoch.run == run
    ]


MakeSite = Callable[..., Site]


def test_repeats_are_the_runs_that_a_study_of_as_many_runs_would_have_had(make: MakeSite) -> None:
    site = make()
    site.train()
    site.plan(repeats=3)
    assert [site.repeat() for _ in range(2)] == [1, 2]
    whole = make(StudyDefinition.from_dict({**SEARCH.to_dict(), "runs_per_trial": 3}))
    for _ in range(3):
        whole.train()
    ours, theirs = site.record(), whole.record()
    assert [run.seed for run in ours.runs] == [run.seed for run in theirs.runs] == [0, 1, 2]
    for run in range(3):
        assert figures(ours, run) == figures(theirs, run)
    accuracies = [run.accuracy for run in theirs.runs if run.accuracy is not None]
    assert ours.values is not None
    assert ours.values.accuracy == pytest.approx(fmean(accuracies))
    assert ours.accuracy_spread == theirs.accuracy_spread
    # Other seeds are other trainings.
    assert figures(ours, 0) != figures(ours, 1)
    assert site.claim(Purpose.TEST).claim.key.run == 0


def test_runs_of_one_index_are_paired_across_trials(make: MakeSite) -> None:
    rows = [{"lr_policy": p, "batch_policy": "constant"} for p in ("fixed", "one_cycle")]
    site = make(
        StudyDefinition.from_dict({**BASE, "runs_per_trial": 2, "configuration": rows}),
    )
    site.plan(budget=2)
    for _ in range(4):
        site.train()
    first, second = site.record(0), site.record(1)
    assert [run.seed for run in first.runs] == [run.seed for run in second.runs]


def test_one_that_was_interrupted_goes_on_from_its_checkpoint(make: MakeSite) -> None:
    site, undisturbed = make(), make()
    for each in (site, undisturbed):
        each.train()
        each.plan(repeats=2)
    undisturbed.repeat()

    def once_it_has_an_epoch() -> bool:
        return len(figures(site.record(), 1)) == 1

    with pytest.raises(InterruptedRunError):
        site.repeat(once_it_has_an_epoch)
    before = site.record()
    assert (before.state, len(before.results)) == (TrialState.COMPLETE, 1)
    site.repeat()
    after = site.record()
    assert [row.token for row in after.epochs if row.run == 1] == [1, 2]
    assert figures(after, 1) == figures(undisturbed.record(), 1)


def test_one_that_diverges_fails_its_trial(
    make: MakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make()
    site.train()
    site.plan(repeats=2)

    def diverge(self: Run) -> None:
        raise DivergedError(2)

    monkeypatch.setattr(Run, "train", diverge)
    assert site.repeat() == 1
    found = site.record()
    assert (found.state, found.values) == (TrialState.FAILED, None)
    assert found.failure is not None
    assert found.failure.message == "diverged at epoch 2"
    assert found.runs[0].accuracy is not None


def test_one_that_breaks_otherwise_leaves_the_trial_its_values(
    make: MakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make()
    site.train()
    site.plan(repeats=2)
    before = site.record().values

    def break_down(self: Run) -> None:
        raise ArithmeticError("no luck\nat all")

    monkeypatch.setattr(Run, "train", break_down)
    site.repeat()
    found = site.record()
    assert (found.state, found.values) == (TrialState.COMPLETE, before)
    assert found.runs[1].failure is not None
    assert found.runs[1].failure.message == "no luck"
    # Not again, and the first run can still meet the test set.
    site.test()
    assert site.record().test_accuracy == found.runs[0].accuracy


def test_a_run_without_its_network_keeps_no_other_from_the_test_set(make: MakeSite) -> None:
    site = make()
    site.train()
    site.plan(repeats=2)
    site.repeat()
    for path in files.run_folder(site.location, site.study, 0, 0).iterdir():
        path.unlink()
    with pytest.raises(CheckpointError, match=r"run-0.*No such file"):
        site.test()
    claimant = Claimant(store=site.store, study=site.study, worker="w", device="cpu")
    queue = TrialQueue(claimant, propose)
    queue.give_up_testing(RunKey(0, 0))
    lease = RunLease(site.store, claimed(queue, Purpose.TEST))
    read_test_set(site.place(), lease)
    lease.release()
    assert queue.claim_next() is Idle.DONE
    first, second = site.record().runs
    assert (first.test_accuracy, second.test_accuracy) == (None, second.accuracy)
    # Once it is known to be gone, the mean is that of the others.
    assert site.record().test_accuracy is None
    site.sql("update fastrcaps_runs set removed = 1 where run = 0")
    assert site.record().test_accuracy == second.accuracy


def test_every_run_of_a_trial_on_the_front_meets_the_test_set(make: MakeSite) -> None:
    site = make()
    site.train()
    site.plan(repeats=2)
    site.repeat()
    site.test()
    site.test()
    found = site.record()
    # The test split of this site is its evaluation split.
    assert [run.test_accuracy for run in found.runs] == [run.accuracy for run in found.runs]
    assert found.values is not None
    assert found.test_accuracy == pytest.approx(found.values.accuracy)


def used_bytes(site: Site) -> int:
    folder = files.study_folder(site.location, site.study)
    return sum(files.kept(site.location, folder).sizes().values())


class TestCollecting:
    @pytest.fixture
    def site(self, make: MakeSite) -> Site:
        """Three complete trials: one in front, one behind it, and one behind both."""
        site = make()
        site.plan(budget=3)
        for _ in range(3):
            site.train()
        for number, (accuracy, seconds) in enumerate([(0.9, 1.0), (0.5, 2.0), (0.4, 3.0)]):
            site.sql(
                f"update fastrcaps_runs set accuracy = {accuracy}, "
                f"training_seconds = {seconds} where number = {number}"
            )
        assert [len(site.weights(number)) for number in range(3)] == [1, 1, 1]
        return site

    def test_only_networks_of_the_front_and_the_next_one_stay(self, site: Site) -> None:
        kept = [site.weights(0), site.weights(1), []]
        used = used_bytes(site)
        CheckpointCollector(site.store, site.study).collect()
        assert [site.weights(number) for number in range(3)] == kept
        left = used_bytes(site)
        assert used
        assert left
        assert left < used
        # Logs stay.
        folder = files.trial_folder(site.location, site.study, 2)
        assert folder.is_dir()

    def test_a_trial_that_is_held_is_left_alone(self, site: Site) -> None:
        claimant = Claimant(store=site.store, study=site.study, worker="w", device="cpu")
        assert claimant.take(site.record(2), 0, Purpose.TEST) is not None
        CheckpointCollector(site.store, site.study).collect()
        assert [len(site.weights(number)) for number in range(3)] == [1, 1, 1]

    def test_files_of_a_claim_that_was_not_seen_are_left_alone(self, site: Site) -> None:
        folder = files.run_folder(site.location, site.study, 2, 0)
        later = folder / "epoch-0001.claim-2.weights.safetensors"
        later.write_bytes(b"another worker's")
        CheckpointCollector(site.store, site.study).collect()
        assert list(folder.iterdir()) == [later]

    def test_removed_networks_are_known_to_be_gone(self, site: Site) -> None:
        CheckpointCollector(site.store, site.study).collect()
        assert [site.record(n).runs[0].removed for n in range(3)] == [False, False, True]
        # One that comes back to the front has nothing that could meet the test set.
        site.sql("update fastrcaps_runs set accuracy = 0.95 where number = 2")
        trials = site.store.trials(site.study)
        assert front_numbers(trials) == [2, 0]
        assert untested_front(site.study, trials) == [RunKey(0, 0)]
        site.sql("update fastrcaps_runs set removed = 0")
        assert untested_front(site.study, site.store.trials(site.study)) == [
            RunKey(0, 0),
            RunKey(2, 0),
        ]

    def test_a_trial_that_was_claimed_meanwhile_is_not_given_up(self, site: Site) -> None:
        trial = site.record(2)
        site.sql("update fastrcaps_runs set token = 2 where number = 2")
        assert not mark_removed(site.store, site.study, trial)
        assert not site.record(2).runs[0].removed
        assert mark_removed(site.store, site.study, site.record(2))
        assert site.record(2).runs[0].removed

    def test_failed_trials_leave_no_checkpoint(self, site: Site) -> None:
        site.sql(
            "update fastrcaps_runs set accuracy = null, failure_kind = 'E', failure_message = '', "
            "failure_trace = '' where number = 0"
        )
        CheckpointCollector(site.store, site.study).collect()
        assert [len(site.weights(number)) for number in range(3)] == [0, 1, 1]
