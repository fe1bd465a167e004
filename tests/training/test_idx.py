"""IDX files written by hand, byte for byte, and every way in which one can be wrong."""

from __future__ import annotations

import gzip
import hashlib
import os
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from fastrcaps_search.errors import DataError
from fastrcaps_search.training.idx import MAX_BYTES, content_checksum, read_idx

LABELS = b"\x00\x00\x08\x01" + b"\x00\x00\x00\x05" + bytes([7, 2, 1, 0, 4])
IMAGES = (
    b"\x00\x00\x08\x03"
    + b"\x00\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00\x03"
    + bytes([0, 1, 2, 3, 4, 5, 250, 251, 252, 253, 254, 255])
)


def written(folder: Path, content: bytes, *, name: str = "some-idx") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def refusal(path: Path) -> str:
    """Return the message of the refusal, which is one line that names the file."""
    with pytest.raises(DataError) as caught:
        read_idx(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert ": " in message
    return message


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("name", ["some-idx", "some-idx.gz"])
def test_reads_values_in_order_whatever_the_name(
    tmp_path: Path, compressed: bool, name: str
) -> None:
    content = gzip.compress(IMAGES) if compressed else IMAGES
    values = read_idx(written(tmp_path, content, name=name))
    assert values.tolist() == [[[0, 1, 2], [3, 4, 5]], [[250, 251, 252], [253, 254, 255]]]
    assert values.dtype == np.uint8
    # torch.from_numpy warns about arrays that cannot be written.
    assert values.flags.writeable


def test_reads_one_dimension(tmp_path: Path) -> None:
    assert read_idx(written(tmp_path, LABELS)).tolist() == [7, 2, 1, 0, 4]


def test_reads_a_gzip_file_of_several_members(tmp_path: Path) -> None:
    content = gzip.compress(LABELS[:6]) + gzip.compress(LABELS[6:])
    assert read_idx(written(tmp_path, content)).tolist() == [7, 2, 1, 0, 4]


def test_checksum_is_that_of_the_plain_file(tmp_path: Path) -> None:
    for content in (LABELS, IMAGES):
        values = read_idx(written(tmp_path, content))
        assert content_checksum(values) == hashlib.sha256(content).hexdigest()


WRONG = [
    pytest.param(b"", "holds 0 bytes", id="empty"),
    pytest.param(b"\x00\x00\x08", "holds 3 bytes", id="three bytes"),
    pytest.param(b"PK\x03\x04" + LABELS, "starts with 50 4b 03 04", id="zip"),
    pytest.param(b"\x00\x00\x0d\x01" + LABELS[4:], "starts with 00 00 0d 01", id="floats"),
    pytest.param(b"\x00\x00\x08\x00", "starts with 00 00 08 00", id="no dimensions"),
    pytest.param(
        b"\x00\x00\x08\xff" + bytes(1020), "starts with 00 00 08 ff", id="255 dimensions"
    ),
    pytest.param(IMAGES[:9], "ends inside its header", id="half a header"),
    pytest.param(b"\x00\x00\x08\x01" + bytes(4), "its header says 0:", id="no values"),
]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(("content", "expected"), WRONG)
def test_refuses_a_wrong_header(
    tmp_path: Path, content: bytes, expected: str, compressed: bool
) -> None:
    path = written(tmp_path, gzip.compress(content) if compressed else content)
    assert expected in refusal(path)


def test_refuses_a_plain_file_of_another_length(tmp_path: Path) -> None:
    short = refusal(written(tmp_path, IMAGES[:-1], name="short"))
    assert "must be 28 bytes long, as its header says, but it is 27" in short
    long = refusal(written(tmp_path, IMAGES + b"\x00", name="long"))
    assert "must be 28 bytes long, as its header says, but it is 29" in long


def test_refuses_gzipped_values_of_another_number(tmp_path: Path) -> None:
    short = refusal(written(tmp_path, gzip.compress(IMAGES[:-1]), name="short"))
    assert "must hold the 12 values (2 x 2 x 3)" in short
    assert "there are only 11" in short
    long = refusal(written(tmp_path, gzip.compress(IMAGES + b"\x00"), name="long"))
    assert "there are more" in long


def test_refuses_a_damaged_gzip_file(tmp_path: Path) -> None:
    whole = gzip.compress(bytes.fromhex("00000801000003e8") + bytes(range(250)) * 4)
    bad_sum = whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:]
    bad_data = whole[:40] + bytes([whole[40] ^ 0xFF, whole[41] ^ 0xFF]) + whole[42:]
    for name, content in {
        "cut": whole[:-12],
        "sum cut": whole[:-3],
        "two bytes": whole[:2],
        "wrong sum": bad_sum,
        "wrong data": bad_data,
        "trailing": whole + b"rubbish",
    }.items():
        message = refusal(written(tmp_path, content, name=name))
        assert "must be a whole gzip file, but it is damaged" in message, name


def test_refuses_an_absurd_header_without_reading_on(tmp_path: Path) -> None:
    header = b"\x00\x00\x08\x03" + struct.pack(">3I", 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
    for name, content in {"plain": header, "gzipped": gzip.compress(header)}.items():
        message = refusal(written(tmp_path, content, name=name))
        assert f"at most {MAX_BYTES:,} values" in message
        assert "4,294,967,295 x 4,294,967,295 x 4,294,967,295" in message


def test_memory_follows_what_is_there_not_what_is_announced(tmp_path: Path) -> None:
    liar = b"\x00\x00\x08\x01" + struct.pack(">I", MAX_BYTES) + bytes(10)
    bomb = b"\x00\x00\x08\x01" + struct.pack(">I", 10) + bytes(100 * 1024 * 1024)
    paths = [
        written(tmp_path, liar, name="liar"),
        written(tmp_path, gzip.compress(liar), name="gzipped liar"),
        written(tmp_path, gzip.compress(bomb, compresslevel=1), name="bomb"),
    ]
    del bomb
    tracemalloc.start()
    for path in paths:
        refusal(path)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 4 * 1024 * 1024


def test_refuses_what_is_no_file(tmp_path: Path) -> None:
    assert "must be a file, but it is a folder or a device" in refusal(tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "must be a file, but it is a folder or a device" in refusal(pipe)
    assert "No such file" in refusal(tmp_path / "nowhere")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert "must be a file that can be read, but Too many levels" in refusal(loop)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_refuses_an_unreadable_file(tmp_path: Path) -> None:
    path = written(tmp_path, LABELS)
    path.chmod(0)
    assert "Permission denied: check its path and its permissions" in refusal(path)
