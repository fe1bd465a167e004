"""The page of an exported network: one HTML file without scripts that asks nobody for anything."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.export.accuracy import Measurement
from fastrcaps_search.export.model_card import ModelCard
from fastrcaps_search.export.samples import OFFSETS, Samples, Sweep
from fastrcaps_search.report import text
from fastrcaps_search.report.templating import page_template
from fastrcaps_search.report.write import write_file

CONTENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One count of the confusion matrix and its share of the true class, from 0 to 1."""

    count: int
    share: float
    is_right: bool


@dataclass(frozen=True, slots=True)
class Row:
    """The images of one class: how many were taken for each class."""

    name: str
    cells: tuple[Cell, ...]
    images: int
    accuracy: float | None


def write_evaluation(
    card: ModelCard,
    measured: Measurement,
    samples: Samples,
    *,
    path: Path,
    written_at: datetime | None = None,
) -> None:
    """Write the page, or leave the file that is there as it is.

    Args:
        card: What is known of the network.
        measured: What it made of a split.
        samples: What there is to look at.
        path: The file; its folder is made if need be.
        written_at: The date that it shows, now if left out.

    Raises:
        DiskError: The file cannot be written there.
    """
    now = (written_at or datetime.now(UTC)).astimezone(UTC)
    write_file(path, evaluation_page(card, measured, samples, written_at=now).encode())


def evaluation_page(
    card: ModelCard,
    measured: Measurement,
    samples: Samples,
    *,
    written_at: datetime,
) -> str:
    """The whole page."""
    return page_template(
        "evaluation.html.j2",
        percent=text.percent,
        seconds=text.seconds,
        count=text.count,
        picture=picture,
    ).render(
        card=card,
        measured=measured,
        samples=samples,
        rows=matrix_rows(measured),
        without_decoder=card.parameters.decoder is Decoder.NONE,
        mistakes=int((measured.predicted != measured.labels).sum()),
        offsets=(OFFSETS[0], OFFSETS[-1]),
        strips={sweep.label: strips(sweep) for sweep in samples.sweeps},
        content_policy=CONTENT_POLICY,
        written_at=written_at,
    )


def matrix_rows(measured: Measurement) -> list[Row]:
    """The confusion matrix by true class."""
    rows = []
    for label, counts in enumerate(measured.confusion.tolist()):
        images = sum(counts)
        cells = tuple(
            Cell(count, count / images if images else 0.0, label == predicted)
            for predicted, count in enumerate(counts)
        )
        accuracy = cells[label].share if images else None
        rows.append(Row(measured.classes[label], cells, images, accuracy))
    return rows


def strips(sweep: Sweep) -> Sequence[NDArray[np.uint8]]:
    """One picture [28, 11 * 28] per dimension: its reconstructions side by side."""
    return [np.concatenate(list(pictures), axis=1) for pictures in sweep.pictures]


def picture(pixels: NDArray[np.uint8]) -> str:
    """Grey pixels [height, width] as the address of a PNG that holds them."""
    return f"data:image/png;base64,{base64.b64encode(png(pixels)).decode()}"


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Grey pixels [height, width] as a PNG (ISO/IEC 15948), 8 bits deep, rows unfiltered."""
    height, width = pixels.shape
    # Each row begins with the number of its filter.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(kind, content)
        for kind, content in (
            (b"IHDR", header),
            (b"IDAT", zlib.compress(rows.tobytes(), 9)),
            (b"IEND", b""),
        )
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
