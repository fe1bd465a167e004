"""Where a study is stored: which database, and the files beside it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from fastrcaps_search.errors import UsageError

DEFAULT_STORAGE = "fastrcaps.db"
DEFAULT_FILES = "fastrcaps-files"
STORAGE_VARIABLE = "FASTRCAPS_STORAGE"
FILES_VARIABLE = "FASTRCAPS_FILES"
SQLITE_SCHEMES = ("sqlite", "sqlite+pysqlite")
LEASE_SECONDS = 30.0
"""Silence after which a worker counts as lost, unless asked otherwise."""
LEASE_LIMITS = (1.0, 86_400.0)
PATIENCE_SECONDS = 600.0
"""How long an outage of the database is borne, unless asked otherwise."""
PATIENCE_LIMITS = (0.0, 31_536_000.0)
POSTGRESQL_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
DATABASE_NAME = re.compile(r"/[^/@?#]+")


@dataclass(frozen=True, slots=True)
class Location:
    """Where a study is stored.

    Attributes:
        url: SQLAlchemy's URL. It may hold a password: never to be printed or stored.
        shown: The same for people: without password and options.
        files: Folder of the checkpoints and logs. Workers of several machines go on from each
            other's checkpoints where they share it.
        path: Absolute path of the SQLite file; ``None`` for a server.
    """

    url: str = field(repr=False)
    shown: str
    files: Path
    path: Path | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must appear nowhere: the URL and its password, as typed and as meant."""
        if self.path is not None:
            return ()
        parts = urlsplit(self.url)
        options = (option.partition("=") for option in parts.query.split("&"))
        named = [value for key, _, value in options if "pass" in key.lower()]
        words = [parts.password or "", *named]
        return tuple({form for word in words if word for form in (word, unquote(word))})

    def redacted(self, text: str) -> str:
        """The text without the secrets of this location."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


def chosen_location(storage: str | None, files: str | None = None) -> Location:
    """The database that was named, or else the one that the environment or the default names.

    Args:
        storage: Path or URL.
        files: Folder of the checkpoints and logs.
    """
    return locate(
        storage or os.environ.get(STORAGE_VARIABLE) or DEFAULT_STORAGE,
        files=files or os.environ.get(FILES_VARIABLE),
    )


def locate(storage: str, *, files: str | None = None) -> Location:
    """The database that ``--storage`` names: a path, ``sqlite:///path`` or ``postgresql://...``.

    Args:
        storage: Path or URL.
        files: Folder of the checkpoints and logs: when ``None``, beside an SQLite file, or
            ``fastrcaps-files`` in the working directory for a server.

    Raises:
        UsageError: Another kind of database. A password in the URL is not repeated.
    """
    scheme, separator, rest = _split(storage)
    folder = None if files is None else Path(files).absolute()
    if not separator:
        return _sqlite(storage, folder)
    if scheme in SQLITE_SCHEMES:
        return _sqlite(rest.removeprefix("/"), folder)
    if scheme in POSTGRESQL_SCHEMES and storage.startswith(f"{scheme}://"):
        return _postgresql(rest, folder)
    # The rest of the URL may hold a password and is not repeated.
    raise UsageError(
        "storage must be a path, sqlite:///path or postgresql://user@host/database, "
        f"got a {re.sub(r'[^a-z0-9+]', '', scheme.lower()) or 'nameless'} URL"
    )


def _sqlite(path: str, files: Path | None) -> Location:
    if not path or path == ":memory:" or path.startswith("file:") or "?" in path or "\0" in path:
        raise UsageError(
            "storage must name a database file, for example fastrcaps.db or "
            "sqlite:///folder/fastrcaps.db"
        )
    whole = Path(path).absolute()
    return Location(
        url=f"sqlite:///{whole}",
        shown=str(whole),
        files=files or whole.with_name(_files_name(whole.name)),
        path=whole,
    )


def _postgresql(rest: str, files: Path | None) -> Location:
    try:
        parts = urlsplit(f"postgresql+psycopg://{rest}")
        host = parts.hostname or ""
        place = f"{f'[{host}]' if ':' in host else host}{f':{parts.port}' if parts.port else ''}"
        # SQLAlchemy ends a password at the first @, urlsplit at the last.
        user_ends_once = "@" not in parts.netloc.rpartition("@")[0]
        complete = DATABASE_NAME.fullmatch(parts.path) and not parts.fragment and user_ends_once
    except ValueError:
        complete = False
    if not complete:
        raise UsageError(
            "storage must be postgresql://user@host:port/database, got a URL without a "
            "database or with a port that is no number; write / @ : # ? in a password as "
            "%2F %40 %3A %23 %3F"
        )
    user = f"{parts.username}@" if parts.username else ""
    return Location(
        url=parts.geturl(),
        shown=f"postgresql://{user}{place}{parts.path}",
        files=files or Path(DEFAULT_FILES).absolute(),
    )


def _split(storage: str) -> tuple[str, str, str]:
    """Scheme, separator and rest of a URL; a URL that lost a slash is still one."""
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/+", storage)
    if found is None or found[0].endswith("://") or found[0].startswith("sqlite"):
        return storage.partition("://")
    return found[1], "://", storage[found.end() :]


def _files_name(database: str) -> str:
    """Name of the folder beside a database: one for each, whatever its ending."""
    name, dot, ending = database.rpartition(".")
    return f"{name}-files" if dot and ending == "db" else f"{database}.files"
