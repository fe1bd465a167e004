"""Download of MNIST and Fashion-MNIST by torchvision: once, checked, whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import io
import logging
import shutil
import socket
import textwrap
from typing import TYPE_CHECKING

from fastrcaps_search.definition.choices import DataSet
from fastrcaps_search.definition.data_facts import FILE_NAMES
from fastrcaps_search.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TORCHVISION_NAMES = {DataSet.MNIST: "MNIST", DataSet.FASHION_MNIST: "FashionMNIST"}
"""torchvision's class for each set, which is also the name of its folder."""

_SILENCE_SECONDS = 10.0
"""How long one connection may stay silent: torchvision itself would wait for ever."""

_REASON_CHARACTERS = 240

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def download_lock(data_set: DataSet, *, folder: Path) -> Iterator[None]:
    """Hold the right to download a set into a folder; wait while another process holds it.

    The lock file stays behind on purpose: removing it could give two processes a lock each. The
    kernel frees the lock of a process that is killed.

    Args:
        data_set: The set to download.
        folder: Made where it does not exist.

    Yields:
        Once the lock is held. Whoever waited should look whether the data have come meanwhile.

    Raises:
        OSError: The folder cannot be made or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{data_set}.lock").open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _log.info("waiting for another process that downloads %s into %s", data_set, folder)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def download(data_set: DataSet, *, folder: Path) -> None:
    """Download a set into ``folder`` in torchvision's layout; hold :func:`download_lock`.

    The files arrive in a folder beside their place and move into it by one rename, so that a
    killed download leaves nothing that looks like data; its remains go with the next one.

    Args:
        data_set: ``mnist`` or ``fashion-mnist``.
        folder: Where the layout starts.

    Raises:
        Exception: Whatever torchvision, the network or the disk raises.
    """
    name = TORCHVISION_NAMES[data_set]
    arriving = folder / f".{data_set}.arriving"
    shutil.rmtree(arriving, ignore_errors=True)
    _log.info("downloading %s into %s", data_set, folder)
    try:
        arriving.mkdir()
        _download_by_torchvision(name, arriving)
        raw = arriving / name / "raw"
        for archive in raw.glob("*.gz"):
            archive.unlink()
        (folder / name).mkdir(exist_ok=True)
        raw.rename(folder / name / "raw")
    finally:
        shutil.rmtree(arriving, ignore_errors=True)


def missing_error(data_set: DataSet, *, folder: Path, reason: Exception) -> DataError:
    """Return the error for data that are neither in the folder nor to be had.

    Args:
        data_set: ``mnist`` or ``fashion-mnist``.
        folder: The folder that was searched.
        reason: Why the download failed.

    Returns:
        An error of one line that says which files to put where.
    """
    cause = textwrap.shorten(str(reason) or type(reason).__name__, _REASON_CHARACTERS)
    files = ", ".join(f"{name}.gz" for name in FILE_NAMES)
    return DataError(
        f"the images of {data_set} must be under {folder}, but they are not and the download "
        f"failed ({cause}): put {files} (gzipped or not) into {folder / data_set}, or name the "
        "folder that has them with --data-dir or FASTRCAPS_DATA; the data set mnist-mini needs "
        "no download"
    )


def _download_by_torchvision(name: str, folder: Path) -> None:
    """Let torchvision download and check the four files, without its progress bars."""
    # Imported here: it brings torch, and most runs find their data without it.
    from torchvision import datasets

    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_SILENCE_SECONDS)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            getattr(datasets, name)(folder, download=True)
    finally:
        socket.setdefaulttimeout(before)
