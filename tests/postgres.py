"""A real PostgreSQL server on loopback, in a temporary folder, for the tests alone."""

from __future__ import annotations

import itertools
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, LiteralString
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tests.servers import START_SECONDS, Server, wait_for

OWNER = "owner"
PASSWORD = "s3cr3t-w0rd"
"""The superuser's. It stands nowhere else, so that a test can search for it in what is printed."""
READER_PASSWORD = "r3ader-w0rd"

LOOPBACK = "127.0.0.1"
SETTINGS = {
    "listen_addresses": LOOPBACK,
    "fsync": "off",  # a crash of the machine may lose the data; a crash of the server does not
    "max_connections": "100",
}
STOP_SECONDS = 60.0

SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}

Stop = Literal["fast", "immediate"]
Rows = list[tuple[Any, ...]]


def programs() -> Path | None:
    """The folder with ``initdb`` and ``postgres``: that on PATH, or Debian's newest, or none."""
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return max(found, key=lambda folder: float(folder.parent.name), default=None)


class PostgresServer(Server):
    """A server of its own, ``with PostgresServer() as server``: gone with its data at the end.

    It ends, too, when the thread that started it ends, as by the death of the test process. Then
    its folder in ``/tmp`` stays.

    Args:
        settings: of ``postgresql.conf``, as ``{"max_connections": "5"}``.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        found = programs()
        if found is None:
            raise FileNotFoundError("a test server needs PostgreSQL's initdb; none is installed")
        self._programs = found
        self._settings = SETTINGS | dict(settings or {})
        self._user = _unprivileged() if os.geteuid() == 0 else None
        self._numbers = itertools.count(1)
        super().__init__("postgres")
        self.port = free_port()
        self.log_file = self.folder / "server.log"
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)

    @property
    def url(self) -> str:
        """Of the maintenance database, for the superuser."""
        return self._url(OWNER, PASSWORD, "postgres")

    def start(self) -> None:
        """Start the server; return when it lets clients in, after recovery if it needs one."""
        if self.process is not None:
            raise RuntimeError("the server must be stopped before it is started")
        if not (self.folder / "data").exists():
            self._make_cluster()
        settings = self._settings | {
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
        }
        self.process = self.start_beside(
            *(str(self._programs / "postgres"), "-D", str(self.folder / "data")),
            *itertools.chain.from_iterable(("-c", f"{k}={v}") for k, v in settings.items()),
        )
        self.wait_until_it_answers(self.process, self.url)

    def start_beside(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a program as the server's user, its output in the log.

        It stops, and its children with it, when the process that started it is gone.
        """
        return self._popen("setpriv", "--pdeathsig", "QUIT", *command)

    def stop(self, mode: Stop = "fast") -> None:
        """Stop the server; return when its process has ended.

        Args:
            mode: ``fast`` ends all connections and writes everything to the data files;
                ``immediate`` is a crash, after which the next start goes through recovery.
        """
        if self.process is None:
            raise RuntimeError("the server must be running before it is stopped")
        self.end(self.process, mode)
        self.process = None

    def end(self, process: subprocess.Popen[bytes], mode: Stop = "immediate") -> None:
        """Stop a process of the server."""
        process.send_signal(SIGNALS[mode])
        process.wait(STOP_SECONDS)

    def new_database(self, encoding: str = "UTF8") -> str:
        """Make an empty database; give its URL, for the superuser."""
        name = f"test_{next(self._numbers)}"
        command = sql.SQL("CREATE DATABASE {} ENCODING {} TEMPLATE template0")
        self._execute(self.url, command.format(sql.Identifier(name), sql.Literal(encoding)))
        return self._url(OWNER, PASSWORD, name)

    def drop_database(self, url: str) -> None:
        """Drop a database, if it is there, and end the connections to it."""
        command = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        self._execute(self.url, command.format(sql.Identifier(_database(url))))

    def read_only(self, url: str) -> str:
        """Make a role that may only connect to a database and read it; give its URL.

        The role reads the tables of the schema ``public``, also those that the superuser makes
        later. Nobody but the superuser may make tables there, nor temporary ones, from now on.
        """
        return self._make_role(
            "reader",
            url,
            "REVOKE ALL ON DATABASE {database} FROM PUBLIC;"
            "REVOKE CREATE ON SCHEMA public FROM PUBLIC;"
            "GRANT CONNECT ON DATABASE {database} TO {role};"
            "GRANT USAGE ON SCHEMA public TO {role};"
            "GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role};"
            "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO {role}",
        )

    def limited(self, url: str, connections: int) -> str:
        """Make a role that owns a database and has so many connections; give its URL."""
        return self._make_role(
            "limited",
            url,
            "ALTER ROLE {role} CONNECTION LIMIT {connections};"
            "ALTER DATABASE {database} OWNER TO {role}",
            connections=sql.Literal(connections),
        )

    def _make_role(
        self, kind: str, url: str, rights: LiteralString, **more: sql.Composable
    ) -> str:
        """Make a role with these rights in a database; give its URL."""
        role, name = f"{kind}_{next(self._numbers)}", _database(url)
        commands = sql.SQL("CREATE ROLE {role} LOGIN PASSWORD {password};" + rights)
        self._execute(
            url,
            commands.format(
                role=sql.Identifier(role),
                password=sql.Literal(READER_PASSWORD),
                database=sql.Identifier(name),
                **more,
            ),
        )
        return self._url(role, READER_PASSWORD, name)

    def set_read_only(self, url: str, *, read_only: bool) -> None:
        """Let nobody write a database, as after a switchover, or everybody again."""
        commands = sql.SQL(
            "SET default_transaction_read_only = off;"
            "ALTER DATABASE {database} SET default_transaction_read_only = {state};"
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = {name} AND pid <> pg_backend_pid()"
        )
        name = _database(url)
        self._execute(
            self.url,
            commands.format(
                database=sql.Identifier(name),
                name=sql.Literal(name),
                state=sql.SQL("on" if read_only else "off"),
            ),
        )

    def run_sql(self, url: str, text: str) -> Rows:
        """Run statements as one transaction, committed at the end; give the rows of the last."""
        return self._execute(url, text.encode())

    def log(self) -> str:
        """All that the server has logged."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def _url(self, user: str, password: str, database: str) -> str:
        return f"postgresql://{user}:{password}@{LOOPBACK}:{self.port}/{database}"

    def _execute(self, url: str, command: psycopg.abc.Query) -> Rows:
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(command)
            while cursor.nextset():
                pass
            return cursor.fetchall() if cursor.description else []

    def _make_cluster(self) -> None:
        password_file = self.folder / "password"
        password_file.write_text(PASSWORD)
        process = self._popen(
            *(str(self._programs / "initdb"), "-D", str(self.folder / "data")),
            *("-U", OWNER, f"--pwfile={password_file}", "--auth=scram-sha-256"),
            *("--encoding=UTF8", "--locale=C", "--no-sync"),
        )
        if process.wait(START_SECONDS):
            raise RuntimeError(f"initdb exited with {process.returncode}:\n{self.log()}")
        password_file.unlink()

    def _popen(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a program as the user who may run a server, its output in the log."""
        user = self._user
        with self.log_file.open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                # None of the caller's: PGPORT, PGTZ and the like would change the server.
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=user and user.pw_uid,
                group=user and user.pw_gid,
                extra_groups=[] if user else None,
                # Ctrl-C is for pytest, which then stops the server.
                start_new_session=True,
            )

    def wait_until_it_answers(self, process: subprocess.Popen[bytes], url: str) -> None:
        """Return once a program that listens there has let a client in."""

        def answers() -> bool:
            with suppress(psycopg.OperationalError):
                self._execute(url, "SELECT 1")
                return True
            return False

        wait_for(process, answers, self.log_file)


def _database(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def _unprivileged() -> pwd.struct_passwd:
    """The user who runs the server for root, since PostgreSQL refuses root."""
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def free_port() -> int:
    """A port for the life of the server.

    It is none of those from which the kernel takes a client's own port: while the server is
    stopped, a client that tries again and again could be given this port and answer itself.
    """
    text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    end = max(int(text.split()[0]), 20_000)
    # Not Python's own generator: it may be seeded, and two runs would then look in one place.
    first = random.SystemRandom().randrange(10_000, end)
    for port in itertools.chain(range(first, end), range(10_000, first)):
        with socket.socket() as probe:
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no port from 10000 to {end} is free on {LOOPBACK}")
