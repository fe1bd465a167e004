"""Reader of IDX files, the format in which MNIST and Fashion-MNIST are published.

An IDX file is two zero bytes, a type byte (0x08: unsigned bytes), the number of dimensions, one
big-endian 32-bit size per dimension, then the values in row-major order (Y. LeCun, C. Cortes and
C. J. C. Burges, "The MNIST database of handwritten digits", file formats).
"""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import stat
import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np

from fastrcaps_search.errors import DataError

if TYPE_CHECKING:
    from io import BufferedReader
    from pathlib import Path

    from numpy.typing import NDArray

    _Stream = BufferedReader | gzip.GzipFile

MAX_BYTES = 64 * 1024 * 1024
"""Most values a file may hold: the largest real one, 60,000 training images, has 47,040,000."""

_UNSIGNED_BYTES = 0x08
_MAX_DIMENSIONS = 3
_CHUNK_BYTES = 1024 * 1024
_NEXT_STEP = "replace it with a fresh copy"


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read one IDX file of unsigned bytes, gzipped (whatever its name) or plain.

    Nothing larger than :data:`MAX_BYTES` is ever held: the header's sizes are checked before any
    value is read, and no more is decompressed than they announce.

    Args:
        path: The file.

    Returns:
        uint8, writable, of the one to three dimensions that the header names.

    Raises:
        DataError: The file cannot be read, is not such a file, or is longer or shorter than its
            header says; one line that names the file.
    """
    try:
        with _opened(path) as stream:
            return _read_stream(stream, path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path} must be a whole gzip file, but it is damaged ({error}): {_NEXT_STEP}"
        ) from error
    except OSError as error:
        raise DataError(
            f"{path} must be a file that can be read, but {error.strerror or error}: "
            "check its path and its permissions"
        ) from error


def content_checksum(values: NDArray[np.uint8]) -> str:
    """Return the SHA-256, in hexadecimal, of the plain IDX file that holds these values."""
    header = struct.pack(f">HBB{values.ndim}I", 0, _UNSIGNED_BYTES, values.ndim, *values.shape)
    digest = hashlib.sha256(header)
    digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()


def _opened(path: Path) -> _Stream:
    """Open a regular file, through gzip where its first two bytes say so."""
    # Asked before opening: to open a pipe would wait for its other end.
    if not stat.S_ISREG(path.stat().st_mode):
        raise DataError(
            f"{path} must be a file, but it is a folder or a device: name the IDX file itself"
        )
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if compressed else path.open("rb")


def _read_stream(stream: _Stream, path: Path) -> NDArray[np.uint8]:
    """Read header and values, and check that nothing is missing or left over."""
    shape = _read_shape(stream, path)
    expected = math.prod(shape)
    if expected > MAX_BYTES:
        raise DataError(
            f"{path} must announce at most {MAX_BYTES:,} values, but its header says "
            f"{_times(shape)}: {_NEXT_STEP}"
        )
    _check_plain_length(stream, path, expected=expected)
    # One byte beyond the end, if there is one, tells a file that is too long; and only at its end
    # does a gzip file prove its own checksum.
    values = _read_up_to(stream, expected + 1)
    if len(values) != expected:
        came = "more" if len(values) > expected else f"only {len(values):,}"
        raise DataError(_wrong_length(path, shape, came=came))
    return np.frombuffer(values, dtype=np.uint8).reshape(shape)


def _read_shape(stream: _Stream, path: Path) -> tuple[int, ...]:
    """Read and check the header; return the sizes of the dimensions."""
    magic = stream.read(4)
    if len(magic) < 4:
        raise DataError(
            f"{path} must be an IDX file, but it holds {len(magic)} bytes: {_NEXT_STEP}"
        )
    zeros, kind, dimensions = struct.unpack(">HBB", magic)
    if zeros != 0 or kind != _UNSIGNED_BYTES or not 1 <= dimensions <= _MAX_DIMENSIONS:
        raise DataError(
            f"{path} must be an IDX file of unsigned bytes (it starts with 00 00 08 and 01, 02 or "
            f"03), but it starts with {magic.hex(' ')}: {_NEXT_STEP}"
        )
    sizes = stream.read(4 * dimensions)
    if len(sizes) < 4 * dimensions:
        raise DataError(
            f"{path} must name {dimensions} sizes, but it ends inside its header: {_NEXT_STEP}"
        )
    shape: tuple[int, ...] = struct.unpack(f">{dimensions}I", sizes)
    if 0 in shape:
        raise DataError(
            f"{path} must hold something, but its header says {_times(shape)}: {_NEXT_STEP}"
        )
    return shape


def _check_plain_length(stream: _Stream, path: Path, *, expected: int) -> None:
    """Refuse a plain file of another length before anything is read of it."""
    if isinstance(stream, gzip.GzipFile):
        return
    here = stream.tell()
    left = os.fstat(stream.fileno()).st_size - here
    if left != expected:
        raise DataError(
            f"{path} must be {here + expected:,} bytes long, as its header says, but it is "
            f"{here + left:,}: {_NEXT_STEP}"
        )


def _read_up_to(stream: _Stream, limit: int) -> bytearray:
    """Read at most ``limit`` bytes, growing only with what is really there."""
    values = bytearray()
    while chunk := stream.read(min(_CHUNK_BYTES, limit - len(values))):
        values += chunk
    return values


def _wrong_length(path: Path, shape: tuple[int, ...], *, came: str) -> str:
    """Return the message for values that do not fit the header."""
    return (
        f"{path} must hold the {math.prod(shape):,} values ({_times(shape)}) that its header "
        f"announces, but there are {came}: {_NEXT_STEP}"
    )


def _times(shape: tuple[int, ...]) -> str:
    """Write a shape as people do: 60,000 x 28 x 28."""
    return " x ".join(f"{size:,}" for size in shape)
