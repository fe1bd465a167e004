"""The page of an exported network: one HTML file without scripts that asks nobody for anything."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.export.accuracy import Measurement
from fastrcaps_search.export.samples import OFFSETS, Samples, Sweep
from fastrcaps_search.report.templating import page_template

CONTENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


def evaluation_page(
    measured: Measurement, samples: Samples, *, written_at: datetime | None = None
) -> str:
    """The whole page.

    Args:
        measured: What the network made of a split.
        samples: What there is to look at.
        written_at: The date that it shows, in UTC; now if left out.
    """
    return page_template("evaluation.html.j2").render(
        picture=picture,
        card=measured.card,
        measured=measured,
        samples=samples,
        strips=strips,
        confusion=measured.confusion.tolist(),
        without_decoder=measured.card.parameters.decoder is Decoder.NONE,
        mistakes=int((measured.predicted != measured.labels).sum()),
        offsets=(OFFSETS[0], OFFSETS[-1]),
        content_policy=CONTENT_POLICY,
        written_at=written_at or datetime.now(UTC),
    )


def strips(sweep: Sweep) -> Sequence[NDArray[np.uint8]]:
    """One picture [28, 11 * 28] per dimension: its reconstructions side by side."""
    return [np.concatenate(list(pictures), axis=1) for pictures in sweep.pictures]


def picture(pixels: NDArray[np.uint8]) -> str:
    """Grey pixels [height, width] as the address of a PNG that holds them."""
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"
