"""The front as an image, drawn by Kaleido in a real Chromium."""

from __future__ import annotations

import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fastrcaps_search.errors import FastrcapsError
from fastrcaps_search.report.formats import Format
from fastrcaps_search.report.plotly_io import HEIGHT, WIDTH
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.report.write import write_report
from tests.report.views import FAILURE

if TYPE_CHECKING:
    from tests.report.conftest import Records

IMAGES = [Format.PNG, Format.SVG, Format.PDF]


@pytest.fixture(scope="class")
def browser_of_kaleido() -> Iterator[None]:
    """One Chromium for all images: starting it takes longer than drawing."""
    if shutil.which("chromium") is None:
        pytest.skip("needs chromium on the path, which is not installed here")
    import kaleido  # type: ignore[import-untyped]  # it ships no types

    kaleido.start_sync_server(mathjax=False)
    yield
    kaleido.stop_sync_server()


@pytest.fixture
def view(records: Records) -> ReportView:
    return ReportView(records.study(), records.trials())


def written(view: ReportView, folder: Path, form: Format) -> bytes:
    path = folder / "images" / f"front.{form}"
    write_report(view, path=path, form=form)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    return path.read_bytes()


# Kaleido warns that a browser that runs takes no options of one call.
@pytest.mark.filterwarnings("ignore:The kopts argument:UserWarning")
@pytest.mark.usefixtures("browser_of_kaleido")
class TestDrawn:
    def test_png_has_twice_the_pixels(self, view: ReportView, tmp_path: Path) -> None:
        found = written(view, tmp_path, Format.PNG)
        assert found.startswith(b"\x89PNG\r\n\x1a\n")
        assert struct.unpack(">II", found[16:24]) == (2 * WIDTH, 2 * HEIGHT)
        assert found.endswith(b"IEND\xaeB`\x82")

    def test_svg_names_the_study_and_its_policies(self, view: ReportView, tmp_path: Path) -> None:
        found = written(view, tmp_path, Format.SVG).decode()
        assert found.startswith("<svg")
        assert f'width="{WIDTH}" height="{HEIGHT}"' in found
        for words in (
            "mnist-mini",
            "front: 5 of 11 complete trials",
            "warm_restarts+adabatch",
            "one_cycle",
            "hollow: shared weights",
            "learned parameters",
        ):
            assert words in found

    def test_pdf_is_one(self, view: ReportView, tmp_path: Path) -> None:
        found = written(view, tmp_path, Format.PDF)
        assert found.startswith(b"%PDF-")
        assert found.rstrip().endswith(b"%%EOF")


def refused(view: ReportView, folder: Path, form: Format) -> str:
    """The error's message; what was there before stays."""
    path = folder / f"front.{form}"
    path.write_text("an earlier image")
    with pytest.raises(FastrcapsError) as raised:
        write_report(view, path=path, form=form)
    assert path.read_text() == "an earlier image"
    assert [entry.name for entry in folder.iterdir()] == [path.name]
    message = str(raised.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("form", IMAGES)
def test_without_a_complete_trial_there_is_nothing_to_draw(
    records: Records, tmp_path: Path, form: Format
) -> None:
    trials = [records.failed(0, FAILURE), records.running(1)]
    assert refused(ReportView(records.study(), trials), tmp_path, form) == (
        f"--format {form} needs a complete trial to draw, got none; "
        "wait for the first one, or write html"
    )


def test_without_chromium_the_error_says_what_to_install(
    view: ReportView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "none"))
    assert refused(view, tmp_path, Format.PNG) == (
        "--format png needs Chromium or Chrome on the path, got none; install one "
        "(Debian: apt-get install chromium), name it in BROWSER_PATH, or use html, csv or json"
    )


def test_without_kaleido_the_error_says_what_to_install(
    view: ReportView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As Python marks what cannot be imported.
    monkeypatch.setitem(sys.modules, "kaleido", None)
    monkeypatch.setitem(sys.modules, "kaleido.errors", None)
    assert refused(view, tmp_path, Format.SVG) == (
        "--format svg needs Kaleido, which is not installed; "
        "pip install 'fastrcaps-search[static]', or use html, csv or json"
    )


def test_a_browser_that_fails_is_one_line(
    view: ReportView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kaleido.errors import KaleidoError  # type: ignore[import-untyped]  # it ships no types

    for error in (RuntimeError("closed\n  at once"), KaleidoError(1, "closed\n  at once")):

        def fail(*_: Any, error: Exception = error, **__: Any) -> bytes:  # noqa: ANN401
            raise error

        monkeypatch.setattr("kaleido.calc_fig_sync", fail)
        message = refused(view, tmp_path, Format.PDF)
        assert message.startswith("the browser must draw the figure as pdf, but it failed: ")
        assert "closed at once" in message


def test_nothing_is_fetched_for_an_image(
    view: ReportView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, Any]] = []

    def draw(_: object, **options: Any) -> bytes:  # noqa: ANN401 - Kaleido's options
        given.append(options)
        return b"drawn"

    monkeypatch.setattr("kaleido.calc_fig_sync", draw)
    assert written(view, tmp_path, Format.SVG) == b"drawn"
    # Left to itself Kaleido loads MathJax from a server.
    assert [options["kopts"] for options in given] == [{"mathjax": False}]
