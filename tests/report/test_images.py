"""The front as an image, drawn by Kaleido in a real Chromium."""

from __future__ import annotations

import shutil
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fastrcaps_search.errors import FastrcapsError
from fastrcaps_search.report.formats import Format
from fastrcaps_search.report.plotly_io import HEIGHT, WIDTH
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.report.write import write_report
from tests.report.views import FAILURE
from tests.store.workers import until

if TYPE_CHECKING:
    from tests.report.conftest import Records

IMAGES = [Format.PNG, Format.SVG, Format.PDF]


needs_chromium = pytest.mark.skipif(
    shutil.which("chromium") is None, reason="needs chromium on the path"
)


@pytest.fixture
def view(records: Records) -> ReportView:
    return ReportView(records.study(), records.trials())


def written(view: ReportView, folder: Path, form: Format) -> bytes:
    path = folder / "images" / f"front.{form}"
    write_report(view, path=path, form=form)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    return path.read_bytes()


@needs_chromium
class TestDrawn:
    def test_png_has_twice_the_pixels(self, view: ReportView, tmp_path: Path) -> None:
        found = written(view, tmp_path, Format.PNG)
        assert found.startswith(b"\x89PNG\r\n\x1a\n")
        assert struct.unpack(">II", found[16:24]) == (2 * WIDTH, 2 * HEIGHT)
        assert found.endswith(b"IEND\xaeB`\x82")

    def test_svg_names_the_study_and_its_policies_and_fetches_nothing(
        self, view: ReportView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import kaleido  # type: ignore[import-untyped]  # it ships no types

        given: list[dict[str, Any]] = []

        class Recording(kaleido.Kaleido):  # type: ignore[misc]  # it ships no types
            def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - Kaleido's own
                given.append(settings)
                super().__init__(**settings)

        monkeypatch.setattr("kaleido.Kaleido", Recording)
        found = written(view, tmp_path, Format.SVG).decode()
        # Left to itself Kaleido loads MathJax from a server.
        assert [settings["mathjax"] for settings in given] == [False]
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


def test_a_browser_that_ends_at_once_is_one_line(
    view: ReportView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER_PATH", "/bin/true")
    message = refused(view, tmp_path, Format.PDF)
    assert message.startswith("the browser must draw the figure as pdf, but it failed: ")
    assert "close immediately" in message


def test_a_browser_that_does_not_answer_is_ended_with_all_that_it_started(
    view: ReportView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, folder, scratch = (tmp_path / name for name in ("browser", "folder", "scratch"))
    # As a wrapper of a real one: it starts another process, and would not be asked to end.
    browser.write_text("#!/bin/sh\ntrap '' TERM\nsleep 47110815\nsleep 47110815\n")
    browser.chmod(0o755)
    folder.mkdir()
    scratch.mkdir()
    monkeypatch.setenv("BROWSER_PATH", str(browser))
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    path = folder / "front.png"
    with pytest.raises(FastrcapsError) as raised:
        write_report(view, path=path, form=Format.PNG, seconds=1.5)
    assert str(raised.value) == (
        "the browser must draw the figure as png within 1.5 s, but did not; try more "
        "--browser-seconds, name another in BROWSER_PATH, or use html, csv or json"
    )
    assert list(folder.iterdir()) == list(scratch.iterdir()) == []
    # Neither this process nor any other has a child of it left.
    until(lambda: not any(b"47110815" in line for line in command_lines()))


def command_lines() -> Iterator[bytes]:
    """The command lines of all processes; that of one that has ended is empty."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield (process / "cmdline").read_bytes()
