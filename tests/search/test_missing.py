"""Files that are no longer beside their database; what was trained is only stored, and touched."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import UsageError
from fastrcaps_search.search.files import run_folder, run_log
from fastrcaps_search.search.missing import missing_files
from fastrcaps_search.store.claiming import Claim
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import locate
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from tests.store.workers import METRICS, SETTING, claimed, queue_of, result_of

DEFINITION = StudyDefinition.from_dict(
    {
        "name": "tiny",
        "network": "lenet5",
        "data_set": "mnist-mini",
        "epochs": 2,
        "boundaries": [1],
        "space": {"adabatch_exponent": [2, 3]},
    }
)


@contextmanager
def opened(path: Path, files: str | None = None) -> Iterator[tuple[Store, StudyRecord]]:
    with closing(Store.writing(locate(str(path), files=files))) as store:
        yield store, store.study("tiny")


def begin(store: Store, study: StudyRecord, claim: Claim) -> RunLease:
    """A run with one epoch and its checkpoint."""
    folder = run_folder(store.location, study, claim.key.number, claim.key.run)
    folder.mkdir(parents=True)
    lease, log = RunLease(store, claim), run_log(store.location, study, claim.key)
    lease.begin(SETTING, fresh=True, log_path=str(log))
    lease.store_epoch(METRICS, setting=SETTING)
    return lease


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database: trial 0 is complete, 1 was left, 2 is held, 3 had no epoch when it was left."""
    path = tmp_path / "old.db"
    study = enter_study(locate(str(path)), DEFINITION, seed=None, budget=9)
    with closing(Store.writing(locate(str(path)))) as store:
        queue = queue_of(store, study)
        claims = [claimed(queue) for _ in range(4)]
        leases = [begin(store, study, claim) for claim in claims[:3]]
        leases[0].finish(replace(result_of(), best_epoch=1))
        leases[1].release()
        begun = RunLease(store, claims[3])
        begun.begin(
            SETTING, fresh=True, log_path=str(run_log(store.location, study, claims[3].key))
        )
        begun.release()
    return path


def test_nothing_is_missed_where_it_stands(path: Path) -> None:
    with opened(path) as (store, study):
        assert list(missing_files(store, study)) == []


@pytest.mark.parametrize("new", ["new.db", "folder/old.db"])
def test_a_moved_database_begins_nothing_again_before_its_files_are_named(
    path: Path, new: str
) -> None:
    moved = path.parent / new
    moved.parent.mkdir(exist_ok=True)
    path.rename(moved)
    old, here = path.parent / "old-files", locate(str(moved)).files
    with opened(moved) as (store, study), pytest.raises(UsageError) as error:
        list(missing_files(store, study))
    assert str(error.value) == (
        f"{here} must hold the files of tiny, got none of trial 1, which are in {old}: go on with "
        f"them by --files {old} (FASTRCAPS_FILES), or move them; or begin these trials again with "
        "--files and a new folder"
    )
    with opened(moved, str(old)) as (store, study):
        assert list(missing_files(store, study)) == []
    with opened(moved, str(here.parent / "other")) as (store, study):
        where = f"are in {old}, not in {here.parent / 'other'}: name it with --files {old} (FAST"
        assert [line.partition("RCAPS_FILES)")[::2] for line in missing_files(store, study)] == [
            (f"the networks of trials 0 {where}", ""),
            (
                f"the checkpoints of trials 1 {where}",
                "; these go on if that can be read",
            ),
        ]


def test_what_was_deleted_is_named(path: Path) -> None:
    old = path.parent / "old-files"
    shutil.rmtree(old)
    with opened(path) as (store, study):
        assert list(missing_files(store, study)) == [
            f"the networks of trials 0 are gone, they were in {old}",
            f"the checkpoints of trials 1 are gone, they were in {old}; these begin again from "
            "epoch 1",
        ]


def test_files_in_a_folder_that_may_not_be_entered(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # That of another user, from whom the database was copied.
    closed, stat = path.parent / "old-files", os.stat

    def refusing(file: int | str | os.PathLike[str], **options: bool) -> os.stat_result:
        if str(file).startswith(str(closed)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
        return stat(file, **options)

    with opened(path, str(path.parent / "own")) as (store, study):
        monkeypatch.setattr(os, "stat", refusing)
        said = list(missing_files(store, study))
        monkeypatch.undo()
    assert said[0] == f"the networks of trials 0 are gone, they were in {closed}"
    assert len(said) == 2
