"""Processes that believe to be on another machine, or in another container, of the same name."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

BOOT_ID = "/proc/sys/kernel/random/boot_id"
MACHINE_ID = "/etc/machine-id"


def on_a_clone(
    folder: Path, *, boot: str = "", name: str = "", nameless: bool = False
) -> list[str]:
    """What stands before a command line, so that it runs on a clone of this machine.

    Args:
        folder: Of the files that stand for those of the clone.
        boot: Its boot id; a container of this very boot with pids of its own if left out.
        name: Its host name, where it is another one.
        nameless: Whether it has no machine id, and is called localhost.
    """
    steps, flags = [], ["--mount"]
    if os.geteuid() != 0:
        flags += ["--user", "--map-root-user"]
    if boot:
        (folder / "boot").write_text(f"{boot}\n")
        steps.append(f"mount --bind {shlex.quote(str(folder / 'boot'))} {BOOT_ID}")
    else:
        flags += ["--pid", "--fork", "--kill-child", "--mount-proc"]
    if nameless:
        name = "localhost"
    if name:
        flags.append("--uts")
        steps.append(f"hostname {name}")
    if nameless:
        (folder / "none").touch()
        if Path(MACHINE_ID).exists():
            steps.append(f"mount --bind {shlex.quote(str(folder / 'none'))} {MACHINE_ID}")
    script = " && ".join([*steps, 'exec "$@"'])
    command = ["unshare", *flags, "sh", "-c", script, "sh"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount in a namespace of its own")
    return command
