"""Plotly itself, imported here alone: its script for the page, and the front as an image."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]  # it ships no types

from fastrcaps_search.definition.objective import COMMON
from fastrcaps_search.errors import FastrcapsError
from fastrcaps_search.report import axes, plots
from fastrcaps_search.report.fronts import TimeAxis, pairs_of
from fastrcaps_search.report.projections import projections
from fastrcaps_search.report.view import ReportView

WIDTH, HEIGHT = 1280, 520
EXTRA = "pip install 'fastrcaps-search[static]'"


def plotly_script() -> str:
    """The text of plotly.js."""
    return str(get_plotlyjs())


def image(view: ReportView, form: str, *, seconds: float) -> bytes:
    """The front as PNG, SVG or PDF, drawn by Kaleido in an installed Chromium or Chrome.

    PNG has twice as many pixels as the page's units.

    Args:
        view: The study.
        form: ``png``, ``svg`` or ``pdf``.
        seconds: How long the browser may take.

    Raises:
        FastrcapsError: No trial is complete, Kaleido or a browser is missing, or the browser
            failed or did not answer.
    """
    drawing = static(view)
    if drawing is None:
        raise FastrcapsError(
            f"--format {form} needs a complete trial to draw, got none; "
            "wait for the first one, or write html"
        )
    try:
        from kaleido.errors import (  # type: ignore[import-untyped]  # it ships no types
            ChromeNotFoundError,
            KaleidoError,
        )
    except ImportError as error:
        raise FastrcapsError(
            f"--format {form} needs Kaleido, which is not installed; {EXTRA}, or use html, csv "
            "or json"
        ) from error
    size = {"width": WIDTH, "height": HEIGHT, "scale": 2 if form == "png" else 1}
    try:
        return _awaited(_drawn(drawing, {"format": form, **size}, seconds))
    except ChromeNotFoundError as error:
        raise FastrcapsError(
            f"--format {form} needs Chromium or Chrome on the path, got none; install one "
            "(Debian: apt-get install chromium), name it in BROWSER_PATH, or use html, csv "
            "or json"
        ) from error
    except TimeoutError as error:
        raise FastrcapsError(
            f"the browser must draw the figure as {form} within {seconds:g} s, but did not; try "
            "more --browser-seconds, name another in BROWSER_PATH, or use html, csv or json"
        ) from error
    # A browser that ends early is a RuntimeError of Choreographer's.
    except (RuntimeError, OSError, KaleidoError) as error:
        words = " ".join(str(error).split())
        raise FastrcapsError(
            f"the browser must draw the figure as {form}, but it failed: {words[:300]}"
        ) from error


def _awaited(image: Coroutine[Any, Any, bytes]) -> bytes:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(image)
    # A notebook has a loop of its own in this thread.
    with ThreadPoolExecutor(1) as another:
        return another.submit(asyncio.run, image).result()


async def _drawn(drawing: plots.Drawing, form: dict[str, Any], seconds: float) -> bytes:
    """The image; the browser has ended when it is there, and when it never comes."""
    from kaleido import Kaleido  # type: ignore[import-untyped]  # it ships no types

    # Plotly's own to_image would fetch MathJax from the network, for which there is no use.
    browser = Kaleido(mathjax=False, timeout=None)

    async def draw() -> bytes:
        await browser.open()
        return bytes(await browser.calc_fig(drawing, opts=form))

    drawing_it = asyncio.create_task(draw())
    try:
        # Shielded: to be cancelled it would wait for the browser.
        return await asyncio.wait_for(asyncio.shield(drawing_it), seconds)
    finally:
        # It leads a group of its own. One that does not answer could not be asked to end.
        with suppress(AttributeError, ProcessLookupError):
            os.killpg(browser.subprocess.pid, signal.SIGKILL)
            browser.subprocess.wait()
        await browser.close()
        drawing_it.cancel()
        await asyncio.gather(drawing_it, return_exceptions=True)


def static(view: ReportView) -> plots.Drawing | None:
    """The front by measured seconds, with a legend and what it is of.

    Returns:
        ``None`` without a complete trial.
    """
    front = view.fronts.get(TimeAxis.SECONDS)
    if front is None:
        return None
    drawn = projections(view.by_number, front)
    data: list[plots.Trace] = [
        _key(mark.policy, mark.symbol, mark.tone.light) for mark in view.marks
    ]
    if any(trial.shares_weights for trial in view.complete):
        data.append(_key("hollow: shared weights", "circle-open", plots.MUTED.light))
    layout: dict[str, Any] = {}
    # More would not fit beside each other.
    pairs = pairs_of(COMMON)
    places = axes.side_by_side(len(pairs), gap=0.075)
    for pair, (suffix, domain) in zip(pairs, places, strict=True):
        parts = drawn[pair.name]["layout"]
        x, y = f"x{suffix}", f"y{suffix}"
        layout[f"xaxis{suffix}"] = parts["xaxis"] | {"domain": domain, "anchor": y}
        layout[f"yaxis{suffix}"] = parts["yaxis"] | {"anchor": x}
        placed = {"xaxis": x, "yaxis": y, "showlegend": False}
        data += [trace | placed for trace in drawn[pair.name]["data"]]
    words = (
        f"{plots.label(view.name)}<br><sub>{plots.label(view.subtitle)}; front: "
        f"{len(view.front)} of {len(view.complete)} complete trials; "
        f"{view.written_at:%Y-%m-%d %H:%M} UTC</sub>"
    )
    font = {"size": 20, "color": plots.TEXT.light}
    return plots.drawing(
        data,
        showlegend=True,
        **layout,
        title={"text": words, "x": 0.01, "xanchor": "left", "font": font},
        margin={"l": 70, "r": 24, "t": 84, "b": 130},
    )


def _key(name: str, symbol: str, colour: str) -> plots.Trace:
    """A trace without points, for the legend."""
    line = {"width": 2 if symbol.endswith("-open") else 0, "color": colour}
    marker = {"symbol": symbol, "color": colour, "size": 10, "line": line}
    return plots.scatter("markers", [None], [None], name=plots.label(name), marker=marker)
