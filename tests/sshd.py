"""A real server of ssh on loopback, with keys and configuration of its own, for tests alone."""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.postgres import free_port
from tests.servers import wait_for

PROGRAMS = ("sshd", "ssh", "ssh-keygen")
PRIVILEGE_SEPARATION = Path("/run/sshd")
"""Must be there where root starts the server; an installed one makes it."""
SERVER = """
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
SetEnv HOME={home}
"""
CLIENT = """
Host {host}
    HostName 127.0.0.1
    Port {port}
    User {user}
    IdentityFile {folder}/user
    IdentitiesOnly yes
    UserKnownHostsFile /dev/null
    StrictHostKeyChecking no
    LogLevel ERROR
"""


def program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


@contextmanager
def reachable(
    name: str, *, folder: Path, home: Path, within: Sequence[str] = ()
) -> Iterator[Path]:
    """A machine that ssh reaches by a name; the configuration of ssh that knows it.

    At the end the server and all connections are cut.

    Args:
        name: As ssh is to call it.
        folder: An empty one for keys and configuration.
        home: Home of whoever logs in.
        within: What stands before the server's command line; it must become the server.
    """
    for part in PROGRAMS:
        if program(part) is None:
            pytest.skip(f"needs {part}: apt-get install openssh-server")
    if not PRIVILEGE_SEPARATION.exists():
        try:
            PRIVILEGE_SEPARATION.mkdir(mode=0o755)
        except OSError:
            pytest.skip(f"needs {PRIVILEGE_SEPARATION}, which only root can make")
    for key in ("host", "user"):
        line = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
        subprocess.run(line, check=True)
    port = free_port()
    facts = {"host": name, "port": port, "folder": folder, "home": home}
    (folder / "server").write_text(SERVER.format(**facts))
    (folder / "client").write_text(CLIENT.format(**facts, user=getpass.getuser()))
    line = ["setpriv", "--pdeathsig", "TERM", *within, str(program("sshd")), "-D", "-e"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [*line, "-f", str(folder / "server")], stdin=subprocess.DEVNULL, stderr=log
        )
    try:
        wait_for(server, lambda: _listens(port), folder / "log")
        yield folder / "client"
    finally:
        server.kill()
        server.wait()


def _listens(port: int) -> bool:
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1.0).close()
        return True
    return False
