"""Of SQLite files alone: gone in mid-use, not to be written, with odd names."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import StoreError
from fastrcaps_search.search.optuna_export import OptunaExport
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location, locate
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from tests.store.workers import (
    METRICS,
    SETTING,
    VALUES,
    claimed,
    complete,
    file_of,
    queue_of,
    result_of,
)

if TYPE_CHECKING:
    from tests.store.conftest import QueueMaker

pytestmark = pytest.mark.parametrize("location", ["sqlite"], indirect=True)


class TestFileThatIsGone:
    """Removed in mid-use, with its write-ahead log or without, or replaced by another."""

    @pytest.fixture
    def uses(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> list[Callable[[], object]]:
        """What a worker does with its database, and has done before."""
        queue = make_queue()
        lease = RunLease(store, claimed(queue))
        lease.begin(SETTING, fresh=True)
        export = OptunaExport(store, study.name)
        return [
            lambda: lease.store_epoch(METRICS, setting=SETTING),
            lease.renew,
            lease.note_device_fault,
            lambda: lease.finish(result_of()),
            lease.release,
            queue.claim_next,
            export.add,
            lambda: store.trials(study),
            lambda: Store.writing(store.location),
        ]

    def test_every_use_says_so_in_one_line_and_makes_nothing_anew(
        self, uses: list[Callable[[], object]], location: Location
    ) -> None:
        path = file_of(location)
        path.unlink()
        for use in uses:
            with pytest.raises(StoreError, match="must stay in its place while it is") as error:
                use()
            assert str(path) in str(error.value)
            assert "\n" not in str(error.value)
        assert not path.exists()

    def test_a_folder_that_is_gone_is_not_made_again(
        self, uses: list[Callable[[], object]], location: Location
    ) -> None:
        path = file_of(location)
        moved = path.parent.rename(path.parent.with_name("moved"))
        for use in uses:
            with pytest.raises(StoreError, match="must stay in its place while it is") as error:
                use()
            assert "\n" not in str(error.value)
        assert not path.parent.exists()
        # Back in its place it can be used again.
        moved.rename(path.parent)
        uses[0]()

    def test_another_file_in_its_place_is_not_written(
        self, uses: list[Callable[[], object]], location: Location, entered_file: Path
    ) -> None:
        path = file_of(location)
        other = path.with_name("other.db")
        shutil.copy(entered_file, other)
        before = other.read_bytes()
        other.replace(path)
        for use in uses[:-1]:
            with pytest.raises(StoreError, match="the file was removed or replaced"):
                use()
        assert path.read_bytes() == before


# Prints what each kind of use gives, as a user without any rights over others' files.
USE = """
import sys
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import FastrcapsError
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.location import locate
from fastrcaps_search.store.store import Store
from sqlalchemy import text

location = locate(sys.argv[1])
LINES = []


def read():
    store = Store.reading(location)
    study = store.study("tiny")
    return study.budget, len(store.trials(study)), len(store.leases(study))


def write():
    change = text("UPDATE fastrcaps_studies SET budget = 9")
    return Store.writing(location).write(lambda connection: connection.execute(change).rowcount)


def enter():
    definition = Store.reading(location).study("tiny").definition
    return enter_study(location, definition, seed=None, budget=11).budget


for use in (read, write, enter, read):
    try:
        found = use()
    except FastrcapsError as error:
        found = f"{type(error).__name__} {error.exit_code} {error}"
    print(found)
"""


def use_without_rights(path: Path) -> list[str]:
    """Lines of a process that may only do what the modes of files say, even for root."""
    drop = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    done = subprocess.run(
        [*(drop if os.geteuid() == 0 else []), sys.executable, "-c", USE, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


class TestFileThatCannotBeWritten:
    @pytest.fixture
    def path(self, location: Location, study: StudyRecord) -> Iterator[Path]:
        """The file; whatever becomes of its folder, it can be removed."""
        path = file_of(location)
        yield path
        path.parent.chmod(0o755)

    @pytest.fixture
    def log(self, make_queue: QueueMaker, path: Path) -> Path:
        """A write-ahead log with the newest rows, a claim, kept there by a worker at work."""
        claimed(make_queue())
        log = path.with_name(path.name + "-wal")
        assert log.stat().st_size > 0
        return log

    def freeze(self, path: Path) -> None:
        """Neither the folder nor any file in it can be written."""
        for file in path.parent.iterdir():
            file.chmod(0o444)
        path.parent.chmod(0o555)

    def refused(self, lines: list[str], read: str) -> None:
        """Everything was refused but reading."""
        first, write, enter, last = lines
        assert (first, last) == (read, read)
        for line in (write, enter):
            assert line.startswith("ReadOnlyStoreError 1 /")
            assert "--storage" in line

    def test_a_read_only_file_is_read(self, path: Path) -> None:
        path.chmod(0o444)
        self.refused(use_without_rights(path), "(4, 0, 0)")

    def test_a_file_in_a_read_only_folder_is_read(self, path: Path) -> None:
        for rest in path.parent.glob("*-*"):
            # Of a reader, which cannot remove its log and the index of that.
            rest.unlink()
        before = sorted(path.parent.iterdir())
        path.parent.chmod(0o555)
        self.refused(use_without_rights(path), "(4, 0, 0)")
        assert sorted(path.parent.iterdir()) == before

    def test_rows_in_the_log_beside_it_are_read(self, path: Path, log: Path) -> None:
        self.freeze(path)
        self.refused(use_without_rights(path), "(4, 1, 1)")

    @pytest.fixture
    def mount_read_only(self) -> Iterator[Callable[[Path], None]]:
        """Mounts a folder on itself, read-only."""
        mounted: list[Path] = []

        def mount(folder: Path) -> None:
            commands = (
                ["mount", "--bind", str(folder), str(folder)],
                ["mount", "-o", "remount,bind,ro", str(folder)],
            )
            for command in commands:
                if subprocess.run(command, capture_output=True, check=False).returncode != 0:
                    pytest.skip("needs the right to mount a folder read-only")
                mounted.append(folder)

        yield mount
        for folder in set(mounted):
            subprocess.run(["umount", "--lazy", str(folder)], check=True)

    @pytest.fixture
    def crashed(self, path: Path, log: Path, tmp_path: Path) -> Path:
        """What a crash leaves: the file, its log, and the log's index."""
        folder = tmp_path / "crashed"
        folder.mkdir()
        for file in path.parent.glob("fastrcaps.db*"):
            shutil.copy(file, folder)
        return folder / path.name

    def test_on_a_read_only_file_system_the_log_of_a_crash_is_read(
        self, crashed: Path, mount_read_only: Callable[[Path], None]
    ) -> None:
        mount_read_only(crashed.parent)
        self.refused(use_without_rights(crashed), "(4, 1, 1)")

    def test_without_the_index_of_the_log_only_older_rows_can_be_read(
        self, crashed: Path, mount_read_only: Callable[[Path], None]
    ) -> None:
        crashed.with_name(crashed.name + "-shm").unlink()
        mount_read_only(crashed.parent)
        self.refused(use_without_rights(crashed), "(4, 0, 0)")


@pytest.mark.parametrize(
    "name",
    ["a b.db", "100%.db", "%41.db", "a#b.db", "{a}.db", "{0}{}.db", "häß–東京.db", "a@b:c.db"],
)
def test_the_name_of_a_file_may_hold_any_character(
    name: str,
    location: Location,
    definition: StudyDefinition,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "x?mode=ro&y=1 #{z}%2f"
    folder.mkdir()
    monkeypatch.chdir(folder)
    odd = locate(name)
    study = enter_study(odd, definition, seed=None, budget=4)
    with (
        closing(Store.writing(odd)) as store,
        closing(OptunaExport(store, study.name)) as export,
    ):
        complete(store, claimed(queue_of(store, study)))
        assert export.add()
    with closing(Store.reading(odd)) as store:
        assert [trial.values for trial in store.trials(study)] == [VALUES]
    # Ours and Optuna's rows are in the file of that name, and no other file was made.
    with closing(sqlite3.connect(name)) as connection:
        for table in ("fastrcaps_trials", "trials"):
            assert connection.execute(f"select count(*) from {table}").fetchone() == (1,)
    assert sorted(path.name for path in Path().iterdir()) == [name]


def test_a_read_only_file_of_odd_name_is_read_as_it_is(
    location: Location, study: StudyRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "x?mode=rw&y=1 #{z}%2f"
    folder.mkdir()
    odd = folder / "100%.db"
    shutil.copy(file_of(location), odd)
    folder.chmod(0o555)
    try:
        monkeypatch.chdir(folder)
        assert use_without_rights(Path(odd.name))[0] == "(4, 0, 0)"
    finally:
        folder.chmod(0o755)
    assert [path.name for path in folder.iterdir()] == [odd.name]
    with closing(sqlite3.connect(file_of(location))) as connection:
        assert connection.execute("select budget from fastrcaps_studies").fetchone() == (4,)
    with closing(Store.reading(location)) as store, pytest.raises(StoreError, match="must be wri"):
        store.write(lambda connection: connection.execute(text("DELETE FROM fastrcaps_studies")))
