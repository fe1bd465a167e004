"""Writing the page: whole or not at all, and nothing in it that could run or call out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.errors import DiskError
from fastrcaps_search.report.page import script_json, write_report

if TYPE_CHECKING:
    from tests.report.conftest import Records


def test_the_folder_is_made_and_nothing_else_is_left_in_it(
    records: Records, write: Callable[..., Path]
) -> None:
    path = write(records.study(), [])
    assert [entry.name for entry in path.parent.iterdir()] == ["page.html"]
    text = path.read_text(encoding="utf-8")
    assert "2026-03-01 14:05 UTC" in text
    assert text.endswith("</html>\n") or text.endswith("</html>")


def test_a_second_report_replaces_the_first(records: Records, write: Callable[..., Path]) -> None:
    path = write(records.study(), [])
    first = path.stat()
    write(records.study(budget=99), [])
    assert "0 of 99" in path.read_text(encoding="utf-8")
    assert path.stat().st_ino != first.st_ino
    # Readable as any file that one writes here, not only by its owner.
    plain = path.with_name("plain")
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode


def test_a_place_that_cannot_be_written_is_one_line(records: Records, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = r"must be writable at .*: Not a directory; free"
    with pytest.raises(DiskError, match=message) as raised:
        write_report(records.study(), [], [], path=tmp_path / "file" / "deeper" / "page.html")
    assert "\n" not in str(raised.value)


def test_a_failed_rename_leaves_no_temporary_file(records: Records, tmp_path: Path) -> None:
    (tmp_path / "page.html").mkdir()
    with pytest.raises(DiskError, match="Is a directory"):
        write_report(records.study(), [], [], path=tmp_path / "page.html")
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]


def test_json_cannot_leave_its_script_element() -> None:
    texts = ["</script>", "<!--", "&lt;", "\u2028\u2029", "plain é"]
    encoded = script_json(texts)
    assert not re.search("[<>&\u2028\u2029]", encoded)
    assert "plain é" in encoded
    assert json.loads(encoded) == texts


def test_json_refuses_what_json_has_no_word_for() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        script_json([float("nan")])


def test_values_that_are_not_finite_do_not_break_the_page(
    records: Records, write: Callable[..., Path]
) -> None:
    odd = records.complete(1, float("nan"), 10.0, 100)
    path = write(records.study(), [records.trials()[0], odd])
    rows = re.search(r'id="front-data">(.*?)</script>', path.read_text(encoding="utf-8"))
    assert rows is not None
    assert [row["trial"] for row in json.loads(rows[1])] == [0]


def test_no_element_names_a_place_on_the_network(
    records: Records, write: Callable[..., Path]
) -> None:
    text = write(records.study(), records.trials()).read_text(encoding="utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    directives = dict(part.split(" ", 1) for part in policy[1].replace("&#39;", "'").split("; "))
    assert directives["default-src"] == "'none'"
    assert directives["img-src"] == "data: blob:"
    assert re.fullmatch(r"('sha256-[\w+/=]+' ?){2}", directives["script-src"])
    assert set(directives) == {
        "default-src",
        "script-src",
        "style-src",
        "img-src",
        "base-uri",
        "form-action",
    }
    markup = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"https?:|(src|href)=\"//", markup)
