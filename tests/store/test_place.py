from __future__ import annotations

from pathlib import Path

import pytest

from fastrcaps_search.errors import UsageError
from fastrcaps_search.store.place import locate


@pytest.mark.parametrize(
    ("storage", "path"),
    [
        ("studies.db", "studies.db"),
        ("folder/a.db", "folder/a.db"),
        ("sqlite:///a.db", "a.db"),
        ("sqlite:///folder/a.db", "folder/a.db"),
        ("sqlite:////data/a.db", "/data/a.db"),
        ("/data/a b.db", "/data/a b.db"),
    ],
)
def test_a_path_or_an_sqlite_url_names_a_file(storage: str, path: str) -> None:
    assert locate(storage).path == Path(path).absolute()


def test_databases_that_differ_in_their_ending_share_no_files() -> None:
    names = ["a.db", "a.sqlite", "a", "a.db.db", "a-files"]
    assert len({locate(f"/data/{name}").files for name in names}) == len(names)


def test_files_and_lock_stand_beside_the_database() -> None:
    location = locate("/data/mine.db")
    assert location.files == Path("/data/mine-files")
    assert location.lock_path == Path("/data/mine.db.lock")


@pytest.mark.parametrize(
    "storage",
    [
        "postgresql://ann:s3cr3t@host/db",
        "postgresql+psycopg://ann:s3cr3t@host/db",
        "mysql://ann:s3cr3t@host/db",
        "postgresql:/ann:s3cr3t@host/db",
    ],
)
def test_another_kind_of_database_is_refused_without_its_password(storage: str) -> None:
    with pytest.raises(UsageError, match="must be a path or sqlite:///path") as error:
        locate(storage)
    assert "s3cr3t" not in str(error.value)


@pytest.mark.parametrize(
    "storage", ["", "sqlite://", "sqlite:///", ":memory:", "sqlite:///:memory:", "a.db?mode=ro"]
)
def test_what_names_no_file_is_refused(storage: str) -> None:
    with pytest.raises(UsageError, match="storage must name a database file"):
        locate(storage)
