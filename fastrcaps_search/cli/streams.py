"""Standard streams that outlive whoever reads them, and take every character."""

from __future__ import annotations

import codecs
import io
import os
import select
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Outlet(io.FileIO):
    """Writes all to a descriptor, or says why not; ``drops`` what it cannot write, if so set."""

    drops = False

    def write(self, data: ReadableBuffer) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        try:
            while left:
                written = super().write(left)
                if written is None:
                    # It does not block, and its reader is slow.
                    select.select([], [self], [])
                left = left[written or 0 :]
        except OSError as error:
            if not self.drops:
                error.filename = "the output"
                raise
        return size


def open_streams() -> None:
    """Put such streams in the place of Python's own, and null devices where there are none."""
    codecs.register_error("fastrcaps-plain", _plain)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # It takes the lowest free number, which the next file would be given otherwise.
            os.open(os.devnull, os.O_RDWR)
        old = getattr(sys, name)
        # A test or a notebook may have put its own in its place.
        if number and old is getattr(sys, f"__{name}__"):
            stream = io.TextIOWrapper(
                _Outlet(number, "w", closefd=False),
                encoding=getattr(old, "encoding", "utf-8"),
                errors="fastrcaps-plain",
                line_buffering=getattr(old, "line_buffering", True),
                write_through=getattr(old, "write_through", False),
            )
            setattr(sys, name, stream)
    # Nobody could be told that errors cannot be written.
    drop_what_fails(sys.stderr)


def can_be_live() -> bool:
    """Whether the output is a terminal on which lines can be written over."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def wait_for_reader(seconds: float) -> None:
    """Wait, for as long as somebody can read the output.

    Raises:
        BrokenPipeError: The reader of a pipe has gone, or the terminal.
    """
    poll = select.poll()
    # That it can be written is not asked; hang-ups and errors are always told.
    poll.register(sys.stdout.fileno(), 0)
    if poll.poll(1000 * seconds):
        drop_what_fails(sys.stdout)
        raise BrokenPipeError


def drop_what_fails(stream: object) -> None:
    """From now on what the stream cannot write is dropped: what this process does goes on."""
    outlet = getattr(stream, "buffer", None)
    if isinstance(outlet, _Outlet):
        outlet.drops = True


def _plain(error: UnicodeError) -> tuple[str | bytes, int]:
    """What stands for a character that the encoding lacks; bytes of a file's name as they are."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character, end = error.object[error.start], error.start + 1
    if "\udc80" <= character <= "\udcff":
        return character.encode("ascii", "surrogateescape"), end
    return "+-" if character == "±" else ascii(character)[1:-1], end
