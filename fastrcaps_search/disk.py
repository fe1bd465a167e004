"""Files on the disk: written whole or not at all, read whole; one line where it refuses."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fastrcaps_search.errors import CheckpointError, DiskError

MOST_BYTES = 512 * 1024 * 1024
"""Most that a file may hold; the largest real one, the full CapsNet's optimiser, has 66 MB."""
FULL = (errno.ENOSPC, errno.EDQUOT)
REFUSED_REPLACING = (errno.EEXIST, errno.EACCES, errno.EPERM)
NO_FLUSHING = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)
"""A file system answers so whose files cannot be flushed; EIO is of one that lost what it had."""


def replace_file(path: Path, content: bytes) -> None:
    """Write a whole file or none: under a temporary name, flushed to the disk, then renamed.

    A reader sees the old file or the new one. A killed process leaves at most
    ``.NAME.xxxxxxxx.part`` beside it.

    Args:
        path: The file; its folder is made if need be.
        content: What it is to hold.

    Raises:
        OSError: It cannot be written, or something else than a file stands there; what was there
            stays.
    """
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "a device or pipe"
        raise FileExistsError(errno.EEXIST, what, str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(path)
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            _flush_file(file.fileno())
        rename_over(temporary, path)
    finally:
        remove_file(temporary)


def temporary_name(path: Path) -> Path:
    """A name beside ``path`` that nobody else uses."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")


def remove_file(path: Path) -> None:
    """Remove a file that is no longer needed; one that cannot be removed only takes room."""
    with suppress(OSError):
        path.unlink(missing_ok=True)


def rename_over(old: Path, new: Path) -> None:
    """Give a file or a folder its name, for good, in place of a file or an empty folder there.

    Shared folders of other systems may refuse to replace: there a reader can find neither for a
    moment.
    """
    with suppress(OSError):
        new.rmdir()
    try:
        old.replace(new)
    except OSError as error:
        if error.errno not in REFUSED_REPLACING or not new.is_file():
            raise
        before = temporary_name(new)
        new.replace(before)
        try:
            old.replace(new)
        except OSError:
            before.replace(new)
            raise
        remove_file(before)
    flush_folder(new.parent)


def flush_folder(path: Path) -> None:
    """Make a renaming last, as far as the file system can: many know this of files alone."""
    with suppress(OSError):
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _flush_file(file: int) -> None:
    """Bring a file to the disk, unless its file system cannot be asked to."""
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in NO_FLUSHING:
            raise


def regular_bytes(path: Path, *, what: str, links: bool = False) -> bytes:
    """Bytes of a regular file; a pipe or a device is not waited for.

    Args:
        path: The file.
        what: What it must be, for the message.
        links: Whether links are followed. Checkpoints are never links, as they are written by
            renaming: somebody else has put it there.

    Raises:
        CheckpointError: It is something else, too large, or cannot be read.
    """

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NONBLOCK | (0 if links else os.O_NOFOLLOW))

    try:
        with open(path, "rb", opener=opener) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise CheckpointError(f"{path} must be {what}, got: no regular file")
            if found.st_size > MOST_BYTES:
                raise CheckpointError(f"{path} must be {what}, got: {found.st_size} bytes")
            return file.read()
    except OSError as error:
        nowhere = links and path.is_symlink() and not path.exists()
        got = f"a link to {path.readlink()}, which is not there" if nowhere else reason(error)
        raise CheckpointError(f"{path} must be {what}, got: {got}") from error


@contextmanager
def disk_errors(
    what: str, path: str | Path, *, advice: str | None = None, must: str = "writable"
) -> Iterator[None]:
    """Say in one line what the system says when ``what`` cannot be written at ``path``.

    Args:
        what: What is written, with its article.
        path: Where to, or where from; a URL as well.
        advice: What happens or can be done then; to name another place if left out.
        must: What it must be instead, as where it is only read.

    Raises:
        DiskError: Instead of any OSError.
    """
    try:
        yield
    except OSError as error:
        usual = f"{'free space there or ' if error.errno in FULL else ''}name another path"
        raise DiskError(
            f"{what} must be {must} at {path}, got: {reason(error)}; {advice or usual}"
        ) from error


def reason(error: OSError) -> str:
    """What the system says, in a few words."""
    if error.errno == errno.ELOOP:
        return "a symbolic link"
    return error.strerror or type(error).__name__


def owned(path: Path) -> str:
    """The path with the name of the user whose it is, or the number of one without a name.

    Alone where nothing is there.
    """
    try:
        owner = path.owner()
    except KeyError:
        owner = str(path.stat().st_uid)
    except OSError:
        return str(path)
    return f"{path}, which belongs to {owner},"
