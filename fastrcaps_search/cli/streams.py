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

PLAIN = {"±": "+-", "\u00a0": " ", "–": "-", "…": "...", "×": "x", "→": "->"}
"""What stands for our own characters where an encoding lacks them."""
PATIENCE_SECONDS = 1.0
"""How long what may be dropped waits for a reader that is slow."""


class _Outlet(io.FileIO):
    """A standard stream of this process.

    Args:
        number: Its descriptor.
        drops: Whether what cannot be written is dropped, instead of an error.
    """

    def __init__(self, number: int, *, drops: bool) -> None:
        super().__init__(number, "w", closefd=False)
        self.drops = drops

    def write(self, data: ReadableBuffer) -> int:
        """Write all of it, or say why not."""
        left = memoryview(data).cast("B")
        size = len(left)
        while left:
            try:
                written = super().write(left)
            except OSError as error:
                if self.drops:
                    break
                error.filename = "the output"
                raise
            # None of a descriptor that somebody made non-blocking, whose reader is slow.
            patience = PATIENCE_SECONDS if self.drops else None
            if written is None and not select.select([], [self], [], patience)[1]:
                break
            left = left[written or 0 :]
        return size


def open_streams() -> None:
    """Put our own streams in the place of Python's, and null devices where there are none.

    Without these, the next file to be opened would be taken for the output.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free is this one.
            os.open(os.devnull, os.O_RDWR)
    codecs.register_error("fastrcaps-plain", _plain)
    for name in ("stdout", "stderr"):
        old = getattr(sys, name)
        # A test or a notebook may have put its own in its place.
        if old is getattr(sys, f"__{name}__"):
            number = 1 if name == "stdout" else 2
            stream = io.TextIOWrapper(
                # Of errors nobody could be told that they cannot be written.
                _Outlet(number, drops=name == "stderr"),
                encoding=getattr(old, "encoding", "utf-8"),
                errors="fastrcaps-plain",
                line_buffering=getattr(old, "line_buffering", True),
                write_through=getattr(old, "write_through", False),
            )
            setattr(sys, name, stream)


def outlive_readers() -> None:
    """From now on the output that cannot be written is dropped: what this process does goes on."""
    outlet = getattr(sys.stdout, "buffer", None)
    if isinstance(outlet, _Outlet):
        outlet.drops = True


def _plain(error: UnicodeError) -> tuple[str | bytes, int]:
    """What stands for a character that the encoding of the output lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character, end = error.object[error.start], error.start + 1
    if "\udc80" <= character <= "\udcff":
        # A byte of a file's name that is not of its encoding: as `ls` prints it.
        return character.encode("ascii", "surrogateescape"), end
    return PLAIN.get(character) or character.encode("ascii", "backslashreplace").decode(), end
