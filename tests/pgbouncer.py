"""A real pgbouncer in front of a test server: each transaction may get another connection."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import AbstractContextManager
from typing import Self

from tests.postgres import LOOPBACK, OWNER, PASSWORD, PostgresServer, free_port

SETTINGS = {
    "listen_addr": LOOPBACK,
    "unix_socket_dir": "",
    # Two, so that the sessions of several clients are soon those of others.
    "default_pool_size": "2",
}


def program() -> str | None:
    """The path of pgbouncer, which Debian keeps beside what only root runs; none without it."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


class PgBouncer(AbstractContextManager["PgBouncer"]):
    """A pooler of its own, ``with PgBouncer(server) as pooler``, in the server's folder.

    Args:
        server: The server behind it.
        mode: When a connection to the server is another's: after a ``transaction``, ``session``
            or ``statement``.
        auth: How clients show that they know the password.
    """

    def __init__(
        self, server: PostgresServer, *, mode: str = "transaction", auth: str = "plain"
    ) -> None:
        self._server = server
        self._port = free_port()
        users = server.folder / f"users-{self._port}"
        users.write_text(f'"{OWNER}" "{PASSWORD}"\n')
        settings = SETTINGS | {
            "listen_port": str(self._port),
            "pool_mode": mode,
            "auth_type": auth,
            "auth_file": str(users),
        }
        lines = [f"{name} = {value}" for name, value in settings.items()]
        self._file = server.folder / f"pgbouncer-{self._port}.ini"
        databases = f"* = host={LOOPBACK} port={server.port}"
        self._file.write_text("\n".join(["[databases]", databases, "[pgbouncer]", *lines, ""]))
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, of_server: str) -> str:
        """The URL of a database by way of the pooler."""
        return of_server.replace(f":{self._server.port}/", f":{self._port}/")

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        found = program()
        assert found is not None
        self._process = self._server.start_beside(found, str(self._file))
        self._server.wait_until_it_answers(self._process, self.url(self._server.url))
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
