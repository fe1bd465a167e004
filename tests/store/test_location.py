from __future__ import annotations

from pathlib import Path

import pytest

from fastrcaps_search.errors import UsageError
from fastrcaps_search.store.location import locate


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


def test_files_stand_beside_the_database() -> None:
    location = locate("/data/mine.db")
    assert location.files == Path("/data/mine-files")


@pytest.mark.parametrize(
    ("storage", "shown"),
    [
        ("postgresql://ann:s3cr3t@host/db", "postgresql://ann@host/db"),
        ("postgres://ann:s3cr3t@host:5433/db", "postgresql://ann@host:5433/db"),
        ("postgresql+psycopg://ann:s3cr3t@[::1]:5433/db", "postgresql://ann@[::1]:5433/db"),
        ("postgresql://host/db?password=s3cr3t&sslmode=require", "postgresql://host/db"),
        ("postgresql://ann:s3cr3t@/db?host=/var/run/postgresql", "postgresql://ann@/db"),
    ],
)
def test_a_server_is_shown_without_its_password(storage: str, shown: str) -> None:
    location = locate(storage)
    assert (location.path, location.shown) == (None, shown)
    assert "s3cr3t" in location.url
    assert "s3cr3t" not in repr(location)
    assert location.redacted("is s3cr3t right?") == "is *** right?"
    assert location.files == Path("fastrcaps-files").absolute()


def test_a_password_is_kept_secret_as_typed_and_as_meant() -> None:
    location = locate("postgresql://ann:p%2Fw%40rd@host/db")
    assert location.redacted("p%2Fw%40rd and p/w@rd") == "*** and ***"


def test_the_folder_of_the_files_can_be_named(tmp_path: Path) -> None:
    assert locate("postgresql://host/db", files="shared").files == Path("shared").absolute()
    assert locate("a.db", files=str(tmp_path)).files == tmp_path


@pytest.mark.parametrize(
    "storage",
    [
        "mysql://ann:s3cr3t@host/db",
        "postgresql+psycopg2://ann:s3cr3t@host/db",
        "postgresql:/ann:s3cr3t@host/db",
    ],
)
def test_another_kind_of_database_is_refused_without_its_password(storage: str) -> None:
    with pytest.raises(
        UsageError, match=r"must be a path, sqlite:///path or postgresql:"
    ) as error:
        locate(storage)
    assert "s3cr3t" not in str(error.value)


@pytest.mark.parametrize(
    "storage",
    [
        "postgresql://",
        "postgresql://host",
        "postgresql://host/",
        "postgresql://ann:s3cr3t@host:many/db",
        # Slash, question mark or hash in a password end the part that holds it.
        "postgresql://ann:s3cr3t/more@host/db",
        "postgresql://ann:p@s3cr3t@host/db",
        "postgresql://ann:12/s3cr3t@host",
        "postgresql://ann:12/s3cr3t@host/db",
        "postgresql://ann:12?s3cr3t@host/db",
        "postgresql://ann:12#s3cr3t@host/db",
    ],
)
def test_an_incomplete_url_is_refused_without_its_password(storage: str) -> None:
    with pytest.raises(UsageError, match="in a password as %2F %40 %3A %23 %3F") as error:
        locate(storage)
    assert "s3cr3t" not in str(error.value)


@pytest.mark.parametrize(
    "storage", ["", "sqlite://", "sqlite:///", ":memory:", "sqlite:///:memory:", "a.db?mode=ro"]
)
def test_what_names_no_file_is_refused(storage: str) -> None:
    with pytest.raises(UsageError, match="storage must name a database file"):
        locate(storage)
