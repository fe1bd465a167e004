"""The page of an exported network: its numbers, its pictures, and what a browser makes of it."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, ViewportSize

from fastrcaps_search.data.shipped import MNIST_MINI
from fastrcaps_search.definition.choices import EvaluateOn
from fastrcaps_search.errors import DiskError
from fastrcaps_search.export.accuracy import Measurement, measure
from fastrcaps_search.export.loader import LoadedNetwork, load_network
from fastrcaps_search.export.samples import Samples, gather_samples
from fastrcaps_search.report.evaluation import evaluation_page, picture
from fastrcaps_search.report.write import write_file
from tests.exported import without_decoder
from tests.report.serving import served

pytestmark = pytest.mark.usefixtures("torch_as_it_was")

DATE = datetime(2026, 5, 4, 14, 5, tzinfo=UTC)


class Looked:
    """An export, measured and inspected, and its page."""

    def __init__(self, folder: Path, path: Path) -> None:
        self.loaded: LoadedNetwork = load_network(folder)
        self.measured: Measurement = measure(
            self.loaded, data_set=MNIST_MINI, split=EvaluateOn.TEST, folder=None
        )
        self.samples: Samples = gather_samples(self.loaded, self.measured)
        self.path = path
        write_file(path, evaluation_page(self.measured, self.samples).encode())


@pytest.fixture(scope="module")
def capsnet(
    torch_as_it_was: None, exports: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Looked:
    return Looked(exports["small-capsnet"], tmp_path_factory.mktemp("page") / "new" / "a.html")


@pytest.fixture(scope="module")
def lenet(
    torch_as_it_was: None, exports: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Looked:
    return Looked(exports["small-lenet"], tmp_path_factory.mktemp("page") / "b.html")


class Opened:
    """A page in a browser of this width, and what it said and asked for."""

    def __init__(self, browser: Browser, path: Path, width: int, **context: Any) -> None:  # noqa: ANN401
        size = ViewportSize(width=width, height=900)
        self.context = browser.new_context(viewport=size, **context)
        self.page: Page = self.context.new_page()
        self.said: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())


@pytest.fixture(params=[(1300, "light"), (390, "dark")], ids=["wide", "narrow"])
def opened(request: pytest.FixtureRequest, browser: Browser, capsnet: Looked) -> Iterator[Opened]:
    width, scheme = request.param
    opened = Opened(browser, capsnet.path, width, color_scheme=scheme)
    yield opened
    opened.context.close()


@pytest.mark.slow
def test_a_browser_is_content_and_asks_nobody(opened: Opened, capsnet: Looked) -> None:
    page = opened.page
    broken = page.evaluate("[...document.images].filter((i) => !i.naturalWidth).length")
    assert broken == 0
    sweeps = len(capsnet.samples.sweeps)
    pictures = len(capsnet.samples.mistakes) + 2 * 20 + sweeps * (1 + 16)
    assert page.locator("img").count() == pictures
    assert opened.said == []
    asked = {re.sub(r"^(data:image/png);.*", r"\1", url) for url in opened.requests}
    assert asked <= {capsnet.path.as_uri(), "data:image/png", "data:,"}
    inside, width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert inside <= width


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["default-src 'self'", "frame-ancestors 'self'"])
def test_a_policy_without_styles_is_said(browser: Browser, lenet: Looked, policy: str) -> None:
    with served(lenet.path.parent, policy) as address:
        page = browser.new_context().new_page()
        page.goto(f"{address}/{lenet.path.name}")
        sentence = page.locator(".blocked")
        assert sentence.is_visible() == policy.startswith("default-src")
        words = "The layout and the pictures need this page"
        assert (sentence.text_content() or "").startswith(words)
        assert page.locator("#confusion").is_visible()
        page.context.close()


@pytest.mark.slow
def test_the_matrix_shows_the_counts_and_can_be_read(opened: Opened, capsnet: Looked) -> None:
    page = opened.page
    rows = page.locator("#confusion tbody tr").all()
    shown = [[int(cell) for cell in row.locator("td.cell").all_text_contents()] for row in rows]
    assert shown == capsnet.measured.confusion.tolist()
    heads = page.locator("#confusion thead th").all_text_contents()
    assert heads == [*"0123456789", "right"]
    contrasts = page.locator("#confusion td.cell").evaluate_all(CONTRASTS)
    assert len(contrasts) == 100
    assert min(contrasts) >= 4.5


# Relative luminance and contrast as in WCAG 2.2.
CONTRASTS = """(cells) => cells.map((cell) => {
    const canvas = document.createElement("canvas").getContext("2d");
    const luminance = (colour) => {
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((v) => {
            const c = v / 255;
            return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const style = getComputedStyle(cell);
    const [a, b] = [luminance(style.color), luminance(style.backgroundColor)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
})"""


def pixels(address: str) -> np.ndarray[Any, Any]:
    content = base64.b64decode(address.removeprefix("data:image/png;base64,"))
    return np.asarray(Image.open(io.BytesIO(content)))


def test_the_pictures_are_those_of_the_network(capsnet: Looked) -> None:
    text = capsnet.path.read_text()
    sources = [pixels(found) for found in re.findall(r'<img src="([^"]+)"', text)]
    strips = [source for source in sources if source.shape == (28, 11 * 28)]
    expected = [
        np.hstack(list(dimension))
        for sweep in capsnet.samples.sweeps
        for dimension in sweep.pictures
    ]
    assert len(strips) == len(expected)
    for strip, wanted in zip(strips, expected, strict=True):
        np.testing.assert_array_equal(strip, wanted)
    first = capsnet.samples.mistakes[0]
    np.testing.assert_array_equal(sources[0], capsnet.measured.images[first.number])
    pair = capsnet.samples.reconstructions[0]
    start = len(capsnet.samples.mistakes)
    np.testing.assert_array_equal(sources[start], capsnet.measured.images[pair.number])
    np.testing.assert_array_equal(sources[start + 1], pair.picture)


def test_every_picture_says_what_it_is(capsnet: Looked) -> None:
    text = capsnet.path.read_text()
    assert len(re.findall(r"<img ", text)) == len(re.findall(r'<img [^>]*alt="[^"]{8,}"', text))
    assert "<script" not in text
    assert "http" not in re.sub(r'http-equiv|"data:[^"]*"', "", text)


def test_the_head_names_the_trial_and_both_accuracies(lenet: Looked) -> None:
    text = lenet.path.read_text()
    card = lenet.loaded.card
    assert f"<h1>small-lenet, trial {card.trial}</h1>" in text
    share = f"{100 * lenet.measured.accuracy:.2f}\u00a0%"
    assert text.count(f'<dd class="figure">{share}</dd>') == 2
    assert "exactly the same" in text
    assert f"no. {lenet.samples.mistakes[0].number}</small>" in text


def test_lenet5_has_neither_reconstructions_nor_sweeps(lenet: Looked, capsnet: Looked) -> None:
    for part in ('id="pairs"', 'id="sweeps"'):
        assert part in capsnet.path.read_text()
        assert part not in lenet.path.read_text()


def test_a_network_without_decoder_says_why_it_draws_nothing(
    capsnet: Looked, tmp_path: Path
) -> None:
    without_decoder(capsnet.loaded, tmp_path / "a")
    bare = Looked(tmp_path / "a", tmp_path / "b.html")
    assert (bare.samples.reconstructions, bare.samples.sweeps) == ((), ())
    assert len(bare.samples.mistakes) == len(capsnet.samples.mistakes)
    page, with_decoder = (each.path.read_text(encoding="utf-8") for each in (bare, capsnet))
    assert "no decoder, shared weights" in page
    assert "the network was trained without a decoder" in page
    assert "trained without a decoder" not in with_decoder
    assert 'id="pairs"' not in page
    assert 'id="sweeps"' not in page


def test_a_picture_holds_its_pixels_in_grey() -> None:
    shades = np.random.default_rng(0).integers(0, 256, (5, 7), dtype=np.uint8)
    address = picture(shades)
    np.testing.assert_array_equal(pixels(address), shades)
    # Width, height, 8 bits, grey, in the header of a PNG (ISO/IEC 15948).
    content = base64.b64decode(address.removeprefix("data:image/png;base64,"))
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert content[16:26] == bytes([0, 0, 0, 7, 0, 0, 0, 5, 8, 0])


def test_a_page_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match="must be writable at"):
        write_file(tmp_path / "file" / "a.html", b"a page")


def test_a_network_without_mistakes_says_so(lenet: Looked) -> None:
    text = evaluation_page(lenet.measured, Samples(()), written_at=DATE)
    assert "2026-05-04 14:05 UTC" in text
    assert "None: every image was classified right." in text
