"""Download by torchvision: checked, whole or not at all."""

from __future__ import annotations

import contextlib
import io
import shutil
import socket
from pathlib import Path

from torchvision import datasets

SILENCE_SECONDS = 10.0
"""How long one connection may stay silent: torchvision itself would wait for ever."""


def download(name: str, *, folder: Path) -> None:
    """Download a set into ``folder`` in torchvision's layout, one process at a time.

    The files arrive in a folder beside their place and move into it by one rename, so that a
    killed download leaves nothing that looks like data; its remains go with the next one.

    Args:
        name: torchvision's class, which checks what arrives.
        folder: Where the layout starts.

    Raises:
        Exception: Whatever torchvision, the network or the disk raises.
    """
    arriving = folder / f".{name}.arriving"
    shutil.rmtree(arriving, ignore_errors=True)
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(SILENCE_SECONDS)
    try:
        # Its progress bars are nobody's output.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            getattr(datasets, name)(arriving, download=True)
        for archive in arriving.rglob("*.gz"):
            archive.unlink()
        (folder / name).mkdir(exist_ok=True)
        (arriving / name / "raw").rename(folder / name / "raw")
    finally:
        socket.setdefaulttimeout(before)
        shutil.rmtree(arriving, ignore_errors=True)
