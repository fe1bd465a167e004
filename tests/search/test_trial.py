"""Claimed trials, trained in a real database: taken over, lost, continued, tested."""

from __future__ import annotations

import copy
import os
import platform
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fastrcaps_search.data.shipped import MNIST_MINI
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import (
    CheckpointError,
    InterruptedRunError,
    LeaseLostError,
    UsageError,
)
from fastrcaps_search.metrics import EpochMetrics, RunSetting
from fastrcaps_search.search import files
from fastrcaps_search.search.checkpoints import CheckpointCollector, best_weights
from fastrcaps_search.search.exporting import kept_runs
from fastrcaps_search.search.queue import TrialQueue
from fastrcaps_search.search.runs import read_test_set, train_run
from fastrcaps_search.search.suggest import propose
from fastrcaps_search.search.workplace import Workplace
from fastrcaps_search.store.claiming import Claimant
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import locate
from fastrcaps_search.store.records import Purpose, StudyRecord
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord
from fastrcaps_search.training.splits import Split, Splits, make_splits
from tests.store.workers import claimed

EPOCHS = 5


@pytest.fixture(scope="module")
def splits() -> Splits:
    definition = StudyDefinition.from_dict(
        {"name": "s", "network": "lenet5", "data_set": "mnist-mini", "train_images": 400}
    )
    whole = make_splits(definition, MNIST_MINI.load(folder=None), device=torch.device("cpu"))
    few = Split(whole.evaluation.images[:40], whole.evaluation.labels[:40])
    return replace(whole, evaluation=few)


class Site:
    """A study with one trial, and ways to work on it."""

    def __init__(self, path: Path, splits: Splits) -> None:
        definition = StudyDefinition.from_dict(
            {
                "name": "tiny",
                "network": "lenet5",
                "data_set": "mnist-mini",
                "epochs": EPOCHS,
                "boundaries": [1],
                "train_images": 400,
                "space": {"adabatch_exponent": [2, 3]},
            }
        )
        location = locate(str(path / "fastrcaps.db"))
        self.study: StudyRecord = enter_study(location, definition, seed=None, budget=1)
        self.store = Store.writing(location)
        self.splits = splits
        self.told: list[tuple[str, dict[str, Any]]] = []

    def claim(self, kind: type[RunLease] = RunLease, purpose: Purpose = Purpose.TRAIN) -> RunLease:
        claimant = Claimant(store=self.store, study=self.study, worker="w", device="cpu")
        return kind(self.store, claimed(TrialQueue(claimant, propose), purpose))

    def record(self) -> TrialRecord:
        (record,) = self.store.trials(self.study, epochs=True)
        return record

    def place(self, should_stop: Callable[[], bool] = lambda: False) -> Workplace:
        def tell(event: str, **facts: object) -> None:
            self.told.append((event, facts))

        return Workplace(
            self.study, self.splits, lambda before: before or 1, tell, should_stop, lambda: False
        )

    def train(self, lease: RunLease, should_stop: Callable[[], bool] = lambda: False) -> None:
        train_run(self.place(should_stop), lease)
        assert self.told[-1] == ("complete", {"trial": 0})

    def folder(self) -> Path:
        return files.run_folder(self.store.location, self.study, 0, 0)

    def tokens(self) -> list[int]:
        return [row.token for row in self.record().epochs]

    def resumed(self) -> list[int]:
        return [facts["epoch"] for event, facts in self.told if event == "resumed"]

    def figures(self) -> list[EpochMetrics]:
        return [
            replace(row.metrics, training_seconds=0.0, evaluation_seconds=0.0)
            for row in self.record().epochs
        ]

    def best_weights(self) -> dict[str, torch.Tensor]:
        record = self.record()
        (run,) = record.runs
        assert len(list(self.folder().iterdir())) == 1
        return dict(best_weights(self.store.location, self.study, record, run))


@pytest.fixture
def make(tmp_path: Path, splits: Splits) -> Iterator[Callable[[], Site]]:
    torch.set_num_threads(1)
    made: list[Site] = []

    def one() -> Site:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Site(folder, splits))
        return made[-1]

    yield one
    for site in made:
        site.store.close()


def check(site: Site, undisturbed: Site) -> None:
    assert site.figures() == undisturbed.figures()
    ours, theirs = site.best_weights(), undisturbed.best_weights()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[k], theirs[k]) for k in ours)


def dies_before_row(epoch: int) -> type[RunLease]:
    class Dying(RunLease):
        def store_epoch(self, metrics: EpochMetrics, *, setting: RunSetting) -> None:
            if metrics.epoch == epoch:
                raise InterruptedRunError("died")
            super().store_epoch(metrics, setting=setting)

    return Dying


class Stops:
    """Asks to stop in the course of an epoch of this site."""

    def __init__(self, site: Site, rows: int) -> None:
        self.site, self.rows = site, rows

    def __call__(self) -> bool:
        return len(self.site.record().epochs) >= self.rows


@pytest.mark.parametrize("epoch", [1, 3, 5])
def test_the_checkpoint_of_the_holder_before_counts_without_its_row(
    make: Callable[[], Site], epoch: int
) -> None:
    undisturbed, site = make(), make()
    undisturbed.train(undisturbed.claim())
    first = site.claim(dies_before_row(epoch))
    with pytest.raises(InterruptedRunError):
        site.train(first)
    first.release()
    assert site.tokens() == [1] * (epoch - 1)
    if epoch < EPOCHS:
        second = site.claim()
        with pytest.raises(InterruptedRunError):
            site.train(second, Stops(site, epoch))
        second.release()
        assert site.tokens() == [1] * (epoch - 1) + [2]
        third = site.claim()
        site.train(third)
        assert site.resumed() == [epoch + 1, epoch + 1]
        assert site.tokens() == [1] * (epoch - 1) + [2] + [3] * (EPOCHS - epoch)
    else:
        site.train(site.claim())
        assert site.resumed() == [EPOCHS + 1]
        assert site.tokens() == [1] * (EPOCHS - 1) + [2]
    check(site, undisturbed)


def test_a_worker_that_has_lost_its_trial_harms_no_checkpoint(make: Callable[[], Site]) -> None:
    undisturbed, site = make(), make()
    undisturbed.train(undisturbed.claim())
    first = site.claim()
    seen: list[RunLease] = []

    def taken_over() -> bool:
        if len(site.record().epochs) == 2 and not seen:
            first.release()
            seen.append(site.claim())
            with pytest.raises(InterruptedRunError):
                site.train(seen[0], Stops(site, 4))
        return False

    with pytest.raises(LeaseLostError):
        site.train(first, taken_over)
    assert site.tokens() == [1, 1, 2, 2]
    seen[0].release()
    site.train(site.claim())
    assert site.resumed() == [3, 5]
    assert site.tokens() == [1, 1, 2, 2, 3]
    check(site, undisturbed)


def test_a_training_stops_when_its_lease_is_known_to_be_lost(make: Callable[[], Site]) -> None:
    class Lost(RunLease):
        def require_held(self) -> None:
            raise LeaseLostError("lost")

    site = make()
    with pytest.raises(LeaseLostError):
        site.train(site.claim(Lost))
    assert site.tokens() == []


def test_a_run_trains_with_the_threads_that_it_may_have(make: Callable[[], Site]) -> None:
    site = make()
    first = site.claim()
    asked: list[int | None] = []

    def use(before: int | None) -> int:
        asked.append(before)
        return 2 if before is None else 1

    place = replace(site.place(Stops(site, 2)), threads=use)
    with pytest.raises(InterruptedRunError):
        train_run(place, first)
    first.release()
    place = replace(site.place(), threads=use)
    train_run(place, site.claim())
    assert asked == [None, 2]
    assert [row.setting.threads for row in site.record().epochs] == [2, 2, 1, 1, 1]
    assert [run.bit_equal for run in site.record().runs] == [False]


def interrupted(site: Site, rows: int) -> None:
    """The run is trained there until so many epochs are stored, and given back."""
    lease = site.claim()
    with pytest.raises(InterruptedRunError):
        site.train(lease, Stops(site, rows))
    lease.release()


def restarted(site: Site) -> list[str]:
    return [facts["reason"] for event, facts in site.told if event == "restarted"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def elsewhere() -> Iterator[Callable[[Site, str | Path], Site]]:
    """Other workers on a study, whose files are in another place."""
    made: list[Site] = []

    def at(site: Site, place: str | Path) -> Site:
        other = copy.copy(site)
        other.store = Store.writing(locate(str(site.store.location.path), files=place))
        made.append(other)
        return other

    yield at
    for site in made:
        site.store.close()


Elsewhere = Callable[[Site, str | Path], Site]


def test_a_run_goes_on_from_any_place_that_can_be_read(
    make: Callable[[], Site], elsewhere: Elsewhere, tmp_path: Path
) -> None:
    undisturbed, site = make(), make()
    undisturbed.train(undisturbed.claim())
    url = f"memory://{tmp_path}"
    bucket, third = elsewhere(site, url), elsewhere(site, tmp_path / "third")
    interrupted(site, 3)
    begun = names(site.folder())
    interrupted(bucket, 4)
    third.train(third.claim())
    folder = site.store.location.files
    told = [facts["where"] for event, facts in site.told if event == "resumed"]
    assert told == [f"at epoch 4, from {folder}", f"at epoch 5, from {url}"]
    assert (site.tokens(), restarted(site)) == ([1, 1, 1, 2, 3], [])
    check(third, undisturbed)
    # What is left is removed by who has those files, once the run has ended.
    assert names(site.folder()) == begun
    kept = files.kept(bucket.store.location, bucket.folder())
    assert kept.names()
    (run,) = site.record().runs
    for one in (site, bucket):
        CheckpointCollector(one.store, one.study).collect()
    best = {f"epoch-{run.best_epoch:04d}.claim-{token}.weights.safetensors" for token in (1, 2)}
    assert {*kept.names(), *names(site.folder())} <= best
    third.best_weights()


def test_what_cannot_be_read_elsewhere_is_told_and_removed_by_who_can(
    make: Callable[[], Site], elsewhere: Elsewhere, tmp_path: Path
) -> None:
    undisturbed, site = make(), make()
    undisturbed.train(undisturbed.claim())
    other, old = elsewhere(site, tmp_path / "other"), site.store.location.files
    interrupted(site, 3)
    # Another machine does not have it.
    old.rename(tmp_path / "away")
    other.train(other.claim())
    (reason,) = restarted(site)
    host = re.escape(platform.node())
    assert re.fullmatch(
        rf"its checkpoints are in {old} on {host}, not in {tmp_path}/other here; workers with "
        "those --files remove them once it has ended, --files with a folder or URL that all "
        "workers reach keeps them",
        reason,
    )
    assert site.tokens() == [2] * EPOCHS
    (tmp_path / "away").rename(old)
    assert names(site.folder())
    for one in (other, site):
        CheckpointCollector(one.store, one.study).collect()
    assert names(site.folder()) == []
    check(other, undisturbed)


def test_what_was_saved_within_the_first_epoch_is_told_of_too(
    make: Callable[[], Site], elsewhere: Elsewhere, tmp_path: Path
) -> None:
    site = make()
    other, old = elsewhere(site, tmp_path / "other"), site.store.location.files
    interrupted(site, 0)
    other.train(other.claim())
    (reason,) = restarted(site)
    assert reason.startswith(f"what was saved of it is in {old} on {platform.node()}, not in ")


def test_a_damaged_checkpoint_elsewhere_is_not_gone_on_from(
    make: Callable[[], Site], elsewhere: Elsewhere, tmp_path: Path
) -> None:
    undisturbed, site = make(), make()
    undisturbed.train(undisturbed.claim())
    other = elsewhere(site, tmp_path / "other")
    interrupted(site, 3)
    (newest,) = site.folder().glob("epoch-0003.*.state.*")
    content = bytearray(newest.read_bytes())
    content[-5] ^= 1
    newest.write_bytes(content)
    other.train(other.claim())
    assert site.resumed() == [3]
    check(other, undisturbed)


def test_one_place_by_two_paths_loses_no_network(
    make: Callable[[], Site], elsewhere: Elsewhere, tmp_path: Path
) -> None:
    undisturbed, site = make(), make()
    undisturbed.train(undisturbed.claim())
    interrupted(site, 3)
    (tmp_path / "link").symlink_to(site.store.location.files)
    other = elsewhere(site, tmp_path / "link")
    other.train(other.claim())
    assert site.resumed() == [4]
    CheckpointCollector(site.store, site.study).collect()
    check(site, undisturbed)


def test_the_test_set_meets_the_weights_of_the_claim_that_stored_them(
    make: Callable[[], Site],
) -> None:
    site = make()
    first = site.claim()
    with pytest.raises(InterruptedRunError):
        site.train(first, Stops(site, 3))
    first.release()
    site.train(site.claim())
    lease = site.claim(purpose=Purpose.TEST)
    record = site.record()
    with pytest.raises(CheckpointError, match=r"must be known, got none|No such file"):
        best_weights(site.store.location, site.study, replace(record, epochs=()), record.runs[0])
    read_test_set(site.place(), lease)
    (run,) = site.record().runs
    assert run.test_accuracy is not None


def test_a_disk_that_refuses_to_the_end_costs_the_network_not_the_trial(
    make: Callable[[], Site],
) -> None:
    site, whole = make(), make()
    whole.train(whole.claim())
    site.folder().parent.mkdir(parents=True)
    site.folder().write_text("in the way")
    site.train(site.claim())
    assert site.figures() == whole.figures()
    record = site.record()
    (run,), (other,) = record.runs, whole.record().runs
    assert (run.accuracy, run.removed, other.removed) == (other.accuracy, True, False)
    # It waits for no reading of the test set, and export says what to do.
    assert record.untested == ()
    with pytest.raises(UsageError, match=r"whose network is kept \(none\), got 0; .* a full disk"):
        kept_runs(record, None)
    unsaved = [facts for event, facts in site.told if event == "unsaved"]
    assert [facts["epoch"] for facts in unsaved] == [*range(1, EPOCHS + 1), run.best_epoch]
    reason = "got: File exists; the trial ends with its values, but without this network"
    assert unsaved[-1]["reason"].endswith(reason)


def test_a_checkpoint_that_cannot_be_written_is_told(make: Callable[[], Site]) -> None:
    site = make()
    site.folder().parent.mkdir(parents=True)
    site.folder().write_text("in the way")
    lease = site.claim()

    def stop() -> bool:
        if len(site.record().epochs) == 2 and site.folder().is_file():
            site.folder().unlink()
        return False

    site.train(lease, stop)
    unsaved = [facts for event, facts in site.told if event == "unsaved"]
    assert [facts["epoch"] for facts in unsaved] == [1, 2]
    assert "got: File exists; the trial goes on without this checkpoint" in unsaved[0]["reason"]
    site.best_weights()


def test_a_failure_in_a_folder_whose_name_is_no_utf_8_is_stored(
    tmp_path: Path, splits: Splits, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else pytest captures it, and its processes cannot hand on halves of characters.
    monkeypatch.setattr(files.LOG, "propagate", False)
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    site = Site(folder, splits)
    with closing(site.store):

        def refuse() -> bool:
            raise ValueError(f"nothing fits into {folder}")

        train_run(site.place(refuse), site.claim())
        failure = site.record().failure
    assert failure is not None
    assert failure.message == f"nothing fits into {tmp_path}/caf\\udce9"
    assert failure.log_path.startswith(f"{tmp_path}/caf\\udce9/fastrcaps-files/")
