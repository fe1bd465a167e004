"""Where a study is stored: which database, and the files beside it."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote, unquote, urlencode, urlsplit

from fastrcaps_search.errors import UsageError
from fastrcaps_search.typed import URL, expanded, path_of, require_no_variable, unwrapped

DEFAULT_STORAGE = "fastrcaps.db"
DEFAULT_FILES = "fastrcaps-files"
STORAGE_VARIABLE = "FASTRCAPS_STORAGE"
STORAGE_FILE_VARIABLE = "FASTRCAPS_STORAGE_FILE"
"""Names a file that holds what would else be in the variable above, for others to read."""
PASSWORD_VARIABLE = "PGPASSWORD"
FILES_VARIABLE = "FASTRCAPS_FILES"
SQLITE_SCHEMES = ("sqlite", "sqlite+pysqlite")
FILES_WANTED = "files must be a folder or a URL such as s3://bucket/prefix"
LEASE_SECONDS = 30.0
"""Silence after which a worker counts as lost, unless asked otherwise."""
RENEWALS = 6
"""Renewals, and signs of life, in the length of a lease."""
LEASE_LIMITS = (1.0, 86_400.0)
PATIENCE_SECONDS = 600.0
"""How long an outage of the database is borne, unless asked otherwise."""
PATIENCE_LIMITS = (0.0, 31_536_000.0)
POSTGRESQL_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
DATABASE_NAME = re.compile(r"/[^/@?#]+")
WORDS = re.compile(r"(host|hostaddr|port|dbname|user|password|service|sslmode)\s*=")
"""How ``host=... dbname=...`` begins, which psql takes in place of a URL."""
ONLY_LIBPQ = re.compile(r",|%2f", re.IGNORECASE)
"""In a URL's host: several of them, or a socket's folder."""
LOST_PARTS = re.compile(
    r"(?i)[a-z][a-z0-9+.-]+:/|(sqlite|postgres)[a-z0-9+]*:|[^/]*(:.*@|@[^/]*:)[^/]*/"
)
"""How a URL begins that has lost slashes, or all before the user; no file is to have its name."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a study is stored.

    Attributes:
        url: SQLAlchemy's URL. It may hold a password: never to be printed or stored.
        shown: The same for people: without password and options.
        files: Folder of the checkpoints and logs. Workers of several machines go on from each
            other's checkpoints where they share it.
        path: Absolute path of the SQLite file; ``None`` for a server.
        files_url: URL in object storage of the checkpoints, where that was named: the folder then
            has the logs alone.
    """

    url: str = field(repr=False)
    shown: str
    files: Path
    path: Path | None = None
    files_url: str | None = None

    @property
    def place(self) -> str:
        """Folder or URL of the checkpoints, as ``--files`` takes it."""
        return self.files_url or str(self.files)

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


def chosen_location(storage: str | Path | None, files: str | None = None) -> Location:
    """The database that was named, or else the one that the environment or the default names.

    Args:
        storage: Path or URL, as it was typed.
        files: Folder of the checkpoints and logs, or URL of the checkpoints, as it was typed.

    Raises:
        UsageError: As for :func:`locate`, or a character that nobody means; or the file of
            ``FASTRCAPS_STORAGE_FILE`` cannot be read.
    """
    plain = unwrapped(storage or storage_of_environment() or DEFAULT_STORAGE, "storage")
    named = files or os.environ.get(FILES_VARIABLE)
    found = locate(plain, files=_files_place(named) if named else None)
    if found.path is not None:
        require_no_variable(plain, "storage")
    return found


def storage_of_environment() -> str | None:
    """The database that the environment names: in a file, which comes first, or as it is.

    Raises:
        UsageError: The file cannot be read, or is empty.
    """
    named = os.environ.get(STORAGE_FILE_VARIABLE)
    if not named:
        return os.environ.get(STORAGE_VARIABLE)
    path = path_of(named, STORAGE_FILE_VARIABLE)
    try:
        text, came = path.read_text(encoding="utf-8").strip(), "an empty one"
    except (OSError, ValueError) as error:
        text, came = "", getattr(error, "strerror", None) or "one that is no text"
    if not text:
        raise UsageError(
            f"{STORAGE_FILE_VARIABLE} must name a file that holds the database's URL, got {came}: "
            f"{path}; write the URL there, for its owner alone to read"
        )
    return text


def storage_file_warning() -> str | None:
    """What to do where others may read the password in the file of ``FASTRCAPS_STORAGE_FILE``.

    The group may, as Kubernetes gives files to one, and anybody where the file is mounted
    read-only, as its secrets are: there nobody can change the mode.
    """
    named = os.environ.get(STORAGE_FILE_VARIABLE)
    if not named:
        return None
    try:
        path = path_of(named, STORAGE_FILE_VARIABLE)
        mode, is_fixed = path.stat().st_mode, os.statvfs(path).f_flag & os.ST_RDONLY
        if not stat.S_ISREG(mode) or not mode & stat.S_IROTH or is_fixed:
            return None
        if not locate(unwrapped(storage_of_environment() or "", "storage")).secrets:
            return None
    except (OSError, UsageError):
        # Whoever needs the file says what is wrong with it.
        return None
    return (
        f"{STORAGE_FILE_VARIABLE} must name a file whose password others cannot read, got one of "
        f"mode {stat.S_IMODE(mode):04o}; chmod 600 {path}"
    )


def locate(storage: str, *, files: str | Path | None = None) -> Location:
    """The database that ``--storage`` names: a path, ``sqlite:///path`` or ``postgresql://...``.

    Args:
        storage: Path or URL.
        files: Folder of the checkpoints and logs, or URL of the checkpoints: when ``None``, beside
            an SQLite file, or ``fastrcaps-files`` in the working directory for a server. Beside a
            URL that is the folder of the logs.

    Raises:
        UsageError: Another kind of database. A password in the URL is not repeated.
    """
    if isinstance(files, str) and URL.match(files):
        return replace(locate(storage), files_url=files)
    folder = None if files is None else Path(files).absolute()
    if WORDS.match(storage):
        return _postgresql(_written_out(storage), folder)
    scheme, separator, rest = storage.partition("://")
    scheme = scheme.lower()
    if separator and scheme in SQLITE_SCHEMES:
        return _sqlite(rest.removeprefix("/"), folder)
    if separator and scheme in POSTGRESQL_SCHEMES:
        return _postgresql(rest, folder)
    if not separator and not LOST_PARTS.match(storage):
        return _sqlite(storage, folder)
    # The rest of the URL may hold a password and is not repeated.
    known = re.sub(r"[^a-z0-9+]", "", scheme) or "nameless"
    came = f"a {known} URL" if separator else "a URL that does not begin so"
    raise UsageError(
        f"storage must be a path, sqlite:///path or postgresql://user@host/database, got {came}"
    )


def _files_place(named: str) -> str | Path:
    """The folder of files that was typed, or the URL.

    Raises:
        UsageError: It is neither, or a URL with what is none of its business, such as a password,
            which is not repeated.
    """
    text = unwrapped(named, "files")
    if not URL.match(text):
        if "://" in text or LOST_PARTS.match(text):
            raise UsageError(f"{FILES_WANTED}, got one that does not begin so")
        return path_of(named, "the folder of files")
    scheme, _, rest = text.partition("://")
    rest = rest.strip("/")
    wrong = ""
    if ":" in rest.rpartition("@")[0]:
        wrong = (
            "a URL with a password or key; object storage finds its credentials where its own "
            "programs do, as in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or ~/.aws"
        )
    elif re.search(r"[?#*\[\]]|::", rest):
        wrong = "a URL with one of ? # * [ ] ::"
    elif scheme.lower() in ("file", "local"):
        wrong = f"a {scheme} URL; name a folder of this machine by its path"
    elif scheme.lower() == "memory":
        wrong = "a memory URL, where no other process would find a network; name one that lasts"
    elif not rest:
        wrong = "a URL without a bucket"
    if wrong:
        raise UsageError(f"{FILES_WANTED}, got {wrong}")
    require_no_variable(text, "files")
    return f"{scheme.lower()}://{rest}"


def _sqlite(path: str, files: Path | None) -> Location:
    odd = path == ":memory:" or path.startswith("file:") or "\0" in path
    if odd or not path or "?" in Path(path).name:
        raise UsageError(
            "storage must name a database file, for example fastrcaps.db or "
            "sqlite:///folder/fastrcaps.db"
        )
    # One file has one lock, one log and one folder of files, by whatever links it is reached.
    whole = Path(os.path.realpath(expanded(path, "storage")))
    return Location(
        url=f"sqlite:///{whole}",
        shown=str(whole),
        files=files or whole.parent / _files_name(whole.name),
        path=whole,
    )


def _postgresql(rest: str, files: Path | None) -> Location:
    if ONLY_LIBPQ.search(re.split("[/?]", rest)[0].rpartition("@")[2]):
        rest = _written_out(f"postgresql://{rest}")
    url = f"postgresql+psycopg://{rest}"
    try:
        parts = urlsplit(url)
        before, _, place = parts.netloc.rpartition("@")
        # SQLAlchemy ends a password at the first @, urlsplit at the last.
        complete = parts.port != 0 and "@" not in before and not parts.fragment
    except ValueError:
        complete = False
    if not (complete and DATABASE_NAME.fullmatch(parts.path)):
        raise UsageError(
            "storage must be postgresql://user@host:port/database, got a URL without a "
            "database or with a port that is no number; write / @ : # ? in a password as "
            "%2F %40 %3A %23 %3F"
        )
    user = f"{parts.username}@" if parts.username else ""
    return Location(
        url=url,
        shown=f"postgresql://{user}{place}{parts.path}",
        files=files or Path(DEFAULT_FILES).absolute(),
    )


def _written_out(text: str) -> str:
    """What follows ``postgresql://`` in the URL that says the same as a text for libpq.

    Raises:
        UsageError: libpq cannot read it, or is not here.
    """
    try:
        from psycopg.conninfo import conninfo_to_dict

        words = {key: str(value) for key, value in conninfo_to_dict(text).items()}
        if {"@", "/"} & {*words.get("dbname", "")}:
            raise ValueError("the rest of a password, most likely")
    except Exception as error:
        # The error may repeat a password.
        raise UsageError(
            "storage must be postgresql://user@host:port/database or what psql takes in its "
            f"place, got what the driver cannot read ({type(error).__name__}); write it as a URL"
        ) from None
    name = quote(words.pop("dbname", ""), safe="")
    user, password = (quote(words.pop(key, ""), safe="") for key in ("user", "password"))
    who = f"{user}{password and ':'}{password}@" if user or password else ""
    if re.fullmatch(r"[A-Za-z0-9.-]+", words.get("host", "")) and "," not in words.get("port", ""):
        who += words.pop("host")
        who += f":{words.pop('port')}" if "port" in words else ""
    return f"{who}/{name}?{urlencode(words, quote_via=quote)}".rstrip("?")


def _files_name(database: str) -> str:
    """Name of the folder beside a database: one for each, whatever its ending."""
    name, dot, ending = database.rpartition(".")
    return f"{name}-files" if dot and ending == "db" else f"{database}.files"
