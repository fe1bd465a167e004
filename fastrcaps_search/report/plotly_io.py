"""Plotly itself, imported here alone: its script for the page, and its static images."""

from __future__ import annotations

from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]  # it ships no types

from fastrcaps_search.errors import FastrcapsError
from fastrcaps_search.report.plots import Drawing

EXTRA = "pip install 'fastrcaps-search[static]'"


def plotly_script() -> str:
    """The text of plotly.js."""
    return str(get_plotlyjs())


def image(drawing: Drawing, *, form: str, width: int, height: int) -> bytes:
    """A figure as PNG, SVG or PDF, drawn by Kaleido in an installed Chromium or Chrome.

    Args:
        drawing: The figure.
        form: ``png``, ``svg`` or ``pdf``.
        width: Pixels of the page's units; PNG has twice as many.
        height: The same.

    Raises:
        FastrcapsError: Kaleido or a browser is missing, or the browser failed.
    """
    try:
        from kaleido import calc_fig_sync  # type: ignore[import-untyped]  # it ships no types
        from kaleido.errors import (  # type: ignore[import-untyped]  # it ships no types
            ChromeNotFoundError,
            KaleidoError,
        )
    except ImportError as error:
        raise FastrcapsError(
            f"--format {form} needs Kaleido, which is not installed; {EXTRA}, or use html, csv "
            "or json"
        ) from error
    size = {"width": width, "height": height, "scale": 2 if form == "png" else 1}
    try:
        # Plotly's own to_image would fetch MathJax from the network, for which there is no use.
        drawn: bytes = calc_fig_sync(
            drawing, opts={"format": form, **size}, kopts={"mathjax": False}
        )
    except ChromeNotFoundError as error:
        raise FastrcapsError(
            f"--format {form} needs Chromium or Chrome on the path, got none; install one "
            "(Debian: apt-get install chromium), name it in BROWSER_PATH, or use html, csv "
            "or json"
        ) from error
    # A browser that ends early is a RuntimeError of Choreographer's.
    except (RuntimeError, OSError, KaleidoError) as error:
        words = " ".join(str(error).split())
        raise FastrcapsError(
            f"the browser must draw the figure as {form}, but it failed: {words[:300]}"
        ) from error
    return drawn
