from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.errors import StoreError, UsageError
from fastrcaps_search.store.location import chosen_location, locate, storage_file_warning
from fastrcaps_search.store.store import Store

if TYPE_CHECKING:
    from tests.conftest import Cli


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
        ("postgresql:///db?host=/run/postgresql&password=s3cr3t", "postgresql:///db"),
        ("postgresql://ann:s3cr3t@%2Frun%2Fpostgresql/db", "postgresql://ann@/db"),
        ("postgresql://ann:s3cr3t@a:5432,b:5433/db", "postgresql://ann@/db"),
        ("host=h port=1 user=ann password=s3cr3t dbname=db", "postgresql://ann@h:1/db"),
        ("dbname = db password = s3cr3t host = /run/postgresql", "postgresql:///db"),
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
        "postgresql:ann:s3cr3t@host/db",
        "psql postgresql://ann:s3cr3t@host/db",
        "sqlite:s3cr3t.db",
        "sqlite:/s3cr3t.db",
        "file:///s3cr3t.db",
        "ann:s3cr3t@host:5432/db",
        "ann:s3/cr3t@host/db",
        "ann@host:5432/s3cr3t",
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
        "user=ann password=s3cr3t host=h",
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


@pytest.mark.parametrize("storage", ["host=h password='s3cr3t", "postgresql://a:b,c/s3cr3t@h/db"])
def test_what_libpq_cannot_read_is_refused_without_its_password(storage: str) -> None:
    with pytest.raises(UsageError, match="got what the driver cannot read") as error:
        locate(storage)
    assert "s3cr3t" not in str(error.value)


def test_a_password_of_libpqs_words_is_quoted_and_kept_secret() -> None:
    location = locate(r"host=h user=ann password='s3 c\'r@/t' dbname=db")
    assert location.url == "postgresql+psycopg://ann:s3%20c%27r%40%2Ft@h/db"
    assert location.redacted("s3 c'r@/t and s3%20c%27r%40%2Ft") == "*** and ***"
    # As a worker gets it.
    assert locate(location.url) == location


@pytest.mark.parametrize(
    "typed", ["~/my.db", "sqlite:///~/my.db", '"~/my.db"\r', " ~/my.db ", "~/link.db"]
)
def test_one_file_is_one_location_however_it_is_typed(
    typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "link.db").symlink_to("my.db")
    monkeypatch.setenv("FASTRCAPS_STORAGE", typed)
    for location in (chosen_location(typed), chosen_location(None)):
        assert (location.path, location.files) == (tmp_path / "my.db", tmp_path / "my-files")
    monkeypatch.setenv("FASTRCAPS_FILES", "'~/files'")
    assert chosen_location(None).files == tmp_path / "files"


@pytest.mark.parametrize("typed", ["/", "//", "sqlite:////"])
def test_the_topmost_folder_is_a_folder_like_others(typed: str) -> None:
    location = chosen_location(typed)
    assert location.path == Path("/")
    with pytest.raises(StoreError, match=r"^/ must be a database, got a folder; name a file"):
        Store.reading(location)


@pytest.mark.parametrize("typed", ["$HOME/my.db", "sqlite:///${HOME}/my.db", "my\u200b.db"])
def test_a_name_that_nobody_means_is_refused(typed: str) -> None:
    with pytest.raises(UsageError, match=r"^storage must be typed plainly, got "):
        chosen_location(typed)


def test_a_folder_of_any_name_reaches_the_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a?b $c 'd"
    folder.mkdir()
    monkeypatch.chdir(folder)
    location = chosen_location("my.db")
    assert location.path == folder / "my.db"
    assert locate(location.url, files=str(location.files)) == location


def test_a_file_may_hold_the_url_and_counts_before_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "storage"
    file.write_text("postgresql://ann:s3cr3t@h/db\n")
    monkeypatch.setenv("FASTRCAPS_STORAGE_FILE", str(file))
    monkeypatch.setenv("FASTRCAPS_STORAGE", str(tmp_path / "other.db"))
    assert chosen_location(None).shown == "postgresql://ann@h/db"
    assert chosen_location("mine.db").path == Path.cwd() / "mine.db"


@pytest.mark.parametrize(
    ("content", "came"), [(None, "No such file"), (b" \n", "an empty one"), (b"\xff", "no text")]
)
def test_a_file_without_a_url_is_refused(
    content: bytes | None, came: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "storage"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("FASTRCAPS_STORAGE_FILE", str(file))
    with pytest.raises(UsageError, match=rf"^FASTRCAPS_STORAGE_FILE must name .*{came}"):
        chosen_location(None)


SECRET_URL = "postgresql://ann:s3cr3t@127.0.0.1:1/db"


@pytest.mark.parametrize(
    ("mode", "url", "is_warned_of"),
    [
        (0o644, SECRET_URL, True),
        (0o604, SECRET_URL, True),
        (0o600, SECRET_URL, False),
        # As Kubernetes mounts a secret for a group.
        (0o440, SECRET_URL, False),
        (0o640, SECRET_URL, False),
        (0o644, "postgresql://ann@127.0.0.1:1/db", False),
        (0o644, "my.db", False),
    ],
)
def test_a_password_in_a_file_that_others_may_read_is_warned_of(
    mode: int, url: str, is_warned_of: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "storage"
    file.write_text(f"{url}\n")
    file.chmod(mode)
    monkeypatch.setenv("FASTRCAPS_STORAGE_FILE", str(file))
    wanted = (
        "FASTRCAPS_STORAGE_FILE must name a file whose password others cannot read, got one of "
        f"mode {oct(mode).replace('o', '')}; chmod 600 {file}"
    )
    assert storage_file_warning() == (wanted if is_warned_of else None)


def test_a_secret_that_is_mounted_read_only_is_not_warned_of(
    mount_disk: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = mount_disk(1) / "storage"
    file.write_text(SECRET_URL)
    file.chmod(0o644)
    monkeypatch.setenv("FASTRCAPS_STORAGE_FILE", str(file))
    assert storage_file_warning() is not None
    subprocess.run(["mount", "-o", "remount,ro", str(file.parent)], check=True)
    assert storage_file_warning() is None


def test_the_warning_is_one_line_of_a_command_that_reads_the_file(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "storage"
    file.write_text(SECRET_URL)
    file.chmod(0o644)
    monkeypatch.setenv("FASTRCAPS_STORAGE_FILE", str(file))
    done = cli("front", "--study", "any", FASTRCAPS_STORAGE_FILE=str(file))
    warning, error = done.stderr.splitlines()
    assert warning == f"warning: {storage_file_warning()}"
    assert error.startswith("fastrcaps-search: ")
    assert "s3cr3t" not in done.stderr
    for arguments in (("front", "--study", "any", "--storage", "new.db"), ("studies",)):
        assert "warning: " not in cli(*arguments, FASTRCAPS_STORAGE_FILE=str(file)).stderr


@pytest.mark.parametrize("typed", ["s3://b/a b/", " 'S3://b/a b'\n"])
def test_checkpoints_at_a_url_leave_the_logs_in_the_folder(
    typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FASTRCAPS_FILES", typed)
    for location in (chosen_location("my.db", typed), chosen_location("my.db")):
        assert (location.files_url, location.place) == ("s3://b/a b", "s3://b/a b")
        assert location.files == tmp_path / "my-files"
        # As a worker gets it.
        assert locate(location.url, files=location.place) == location
    monkeypatch.delenv("FASTRCAPS_FILES")
    assert chosen_location("my.db").place == str(tmp_path / "my-files")


@pytest.mark.parametrize(
    ("typed", "got"),
    [
        ("s3://AKIA:s3cr3t@bucket/x", "a URL with a password or key; object storage finds"),
        ("s3://AKIA:s3/cr3t@bucket/x", "a URL with a password or key; object storage finds"),
        ("s3://bucket/x?token=s3cr3t", "a URL with one of ? # "),
        ("simplecache::s3://bucket/s3cr3t", "one that does not begin so"),
        ("s3://bucket/*", "a URL with one of ? # "),
        ("s3://", "a URL without a bucket"),
        ("s3:/bucket/s3cr3t", "one that does not begin so"),
        ("file:///tmp/s3cr3t", "a file URL; name a folder of this machine by its path"),
    ],
)
def test_urls_of_files_that_are_refused_without_a_secret(typed: str, got: str) -> None:
    with pytest.raises(UsageError) as caught:
        chosen_location("my.db", typed)
    wanted = "files must be a folder or a URL such as s3://bucket/prefix, got "
    assert str(caught.value).startswith(wanted + got)
    assert "s3cr3t" not in str(caught.value)


def test_a_variable_in_a_url_of_files_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^files must be typed plainly, got \$ in "):
        chosen_location("my.db", "s3://bucket/$USER")
