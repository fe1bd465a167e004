"""Where a study is stored: which database, and the files beside it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from fastrcaps_search.errors import UsageError

DEFAULT_STORAGE = "fastrcaps.db"
STORAGE_VARIABLE = "FASTRCAPS_STORAGE"


@dataclass(frozen=True, slots=True)
class Location:
    """Where a study is stored.

    Attributes:
        path: Absolute path of the SQLite file.
    """

    path: Path

    @property
    def url(self) -> str:
        """SQLAlchemy's URL."""
        return f"sqlite:///{self.path}"

    @property
    def lock_path(self) -> Path:
        """File whose lock admits one process at a time."""
        return self.path.with_name(self.path.name + ".lock")

    @property
    def files(self) -> Path:
        """Folder of the checkpoints and logs, beside the database."""
        return self.path.with_name(_files_name(self.path.name))


def chosen_location(storage: str | None) -> Location:
    """The database that was named, or else the one that the environment or the default names."""
    return locate(storage or os.environ.get(STORAGE_VARIABLE) or DEFAULT_STORAGE)


def locate(storage: str) -> Location:
    """The database that ``--storage`` names: a path, or ``sqlite:///path``.

    Raises:
        UsageError: Another kind of database. A password in the URL is not repeated.
    """
    scheme, separator, rest = _split(storage)
    if not separator:
        path = storage
    elif scheme in ("sqlite", "sqlite+pysqlite"):
        path = rest.removeprefix("/")
    else:
        # The rest of the URL may hold a password and is not repeated.
        raise UsageError(
            "storage must be a path or sqlite:///path in this version, "
            f"got a {re.sub(r'[^a-z0-9+]', '', scheme.lower()) or 'nameless'} URL"
        )
    if not path or path == ":memory:" or path.startswith("file:") or "?" in path or "\0" in path:
        raise UsageError(
            "storage must name a database file, for example fastrcaps.db or "
            "sqlite:///folder/fastrcaps.db"
        )
    return Location(Path(path).absolute())


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
