"""Writing the page: whole or not at all, and nothing in it that could run or call out."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.analysis.estimates import estimated
from fastrcaps_search.analysis.rows import front_rows, trial_rows
from fastrcaps_search.errors import DiskError
from fastrcaps_search.report.formats import Format
from fastrcaps_search.report.page import page, page_scripts
from fastrcaps_search.report.sections import sections
from fastrcaps_search.report.templating import TEMPLATES, page_template
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.report.write import write_report
from tests.report.colours import contrast
from tests.report.views import HOSTILE, KINDS, stored_of, view_of

if TYPE_CHECKING:
    from tests.report.conftest import Records

TEXTS = [Format.HTML, Format.CSV, Format.JSON]


def rows_of(text: str) -> list[dict[str, object]]:
    """The rows of the trials on the front, in its order."""
    found = re.search('id="report-data">(.*?)</script>', text)
    assert found is not None
    data = json.loads(found[1])
    rows = {row["trial"]: row for row in data["rows"]}
    return [rows[number] for number in data["fronts"].get("seconds", ())]


def test_the_folder_is_made_and_nothing_else_is_left_in_it(
    records: Records, write: Callable[..., Path]
) -> None:
    path = write(records.study(), [])
    assert [entry.name for entry in path.parent.iterdir()] == ["page.html"]
    text = path.read_text(encoding="utf-8")
    assert "2026-03-01 14:05 UTC" in text
    assert text.endswith("</html>\n") or text.endswith("</html>")


@pytest.mark.parametrize("form", Format)
def test_a_second_report_replaces_the_first(
    records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Format
) -> None:
    view = ReportView(records.study(), records.trials())
    monkeypatch.setattr("fastrcaps_search.report.plotly_io.image", lambda *_, **__: b"drawn")
    path = tmp_path / f"mine.{form}"
    path.write_text("what was there")
    first = path.stat()
    write_report(view, path=path, form=form)
    assert path.read_bytes() != b"what was there"
    # A file of its own: who reads the first one goes on to read it whole.
    assert path.stat().st_ino != first.st_ino
    # Readable as any file that one writes here, not only by its owner.
    plain = path.with_name("plain")
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode
    assert {entry.name for entry in tmp_path.iterdir()} == {path.name, "plain"}


def test_the_page_is_written_as_of_now(records: Records, tmp_path: Path) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    write_report(ReportView(records.study(), []), path=tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    written = re.search('name="written" content="([^"]*)"', text)
    assert written is not None
    assert before <= datetime.fromisoformat(written[1]) <= datetime.now(UTC)


@pytest.mark.parametrize("form", TEXTS)
def test_a_place_that_cannot_be_written_is_one_line(
    records: Records, tmp_path: Path, form: Format
) -> None:
    (tmp_path / "file").touch()
    message = r"must be writable at .*: Not a directory; name another"
    path = tmp_path / "file" / "deeper" / "page"
    with pytest.raises(DiskError, match=message) as raised:
        write_report(ReportView(records.study(), []), path=path, form=form)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("form", TEXTS)
def test_a_folder_in_the_way_is_left_as_it_is(
    records: Records, tmp_path: Path, form: Format
) -> None:
    path = tmp_path / "page"
    path.mkdir()
    with pytest.raises(DiskError, match="got: a folder; name another"):
        write_report(ReportView(records.study(), []), path=path, form=form)
    assert [entry.name for entry in tmp_path.iterdir()] == ["page"]


def test_a_full_disk_leaves_the_page_that_was_there(
    records: Records, mount_disk: Callable[[int], Path]
) -> None:
    path = mount_disk(1) / "page.html"
    path.write_text("an earlier page")
    with pytest.raises(DiskError, match=r"must be writable at .*: No space left on device; free"):
        write_report(ReportView(records.study(), records.trials()), path=path)
    assert path.read_text() == "an earlier page"
    assert [entry.name for entry in path.parent.iterdir()] == ["page.html"]


def as_json(value: object) -> str:
    """A value as the pages' data elements carry it, which ``JSON.parse`` reads."""
    template = page_template("page.html.j2").environment.from_string("{{ value|tojson }}")
    return template.render(value=value)


def test_json_cannot_leave_its_script_element() -> None:
    texts = ["</script>", "<!--", "&lt;", "\u2028\u2029", "plain é"]
    encoded = as_json(texts)
    assert not re.search("[<>&]", encoded)
    assert "plain é" in encoded
    assert json.loads(encoded) == texts


def test_json_refuses_what_json_has_no_word_for() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json([float("nan")])


@pytest.mark.parametrize("kind", KINDS)
def test_every_study_has_a_page_that_carries_its_rows(records: Records, kind: str) -> None:
    view = stored_of(kind, records)
    text = page(view)
    assert rows_of(text) == front_rows(view.records)
    report = re.search('id="report-data">(.*?)</script>', text)
    assert report is not None
    assert json.loads(report[1])["rows"] == trial_rows(view.records, view.leases)


def test_the_front_can_be_read_without_scripts(records: Records) -> None:
    text = page(view_of(records.study(), records.trials()))
    table = re.search(r'<table id="front-table">(.*?)</table>', text, re.DOTALL)
    assert table is not None
    found = [int(number) for number in re.findall(r'data-trial="(\d+)"', table[1])]
    assert found == records.front
    for words in ("97.00\u00a0%", "96.60\u00a0%", "1,483,312", "1 → 32 → 64 → 128"):
        assert words in table[1]


def test_values_that_are_not_finite_do_not_break_the_page(
    records: Records, write: Callable[..., Path]
) -> None:
    odd = records.complete(1, float("nan"), 10.0, 100)
    path = write(records.study(), [records.trials()[0], odd])
    rows = rows_of(path.read_text(encoding="utf-8"))
    assert [row["trial"] for row in rows] == [0]


def test_only_its_own_scripts_may_run_and_nothing_may_be_fetched(records: Records) -> None:
    view = view_of(records.study(), records.trials())
    text = page(view)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    directives = dict(part.split(" ", 1) for part in policy[1].replace("&#39;", "'").split("; "))
    # Plotly lies in a block of its own and is started later, under the same rule.
    scripts = re.findall(
        r'<script(?: type="text/plain" id="plotly")?>(.*?)</script>', text, flags=re.DOTALL
    )
    # The probe, Plotly and the page's own.
    assert len(scripts) == 2 + len(page_scripts(sections(view))) > 5
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert directives == {
        "default-src": "'none'",
        "script-src": " ".join(f"'sha256-{digest}'" for digest in digests),
        "style-src": "'unsafe-inline'",
        "img-src": "data: blob:",
        # The page looks at itself in a frame to see whether there is a newer one.
        "frame-src": "'self' file:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    # The policy stands before any script, or it would not hold for it.
    assert text.index("Content-Security-Policy") < text.index("<script")
    blocks = re.findall(r'<script type="([^"]+)"', text)
    assert blocks == ["application/json", "text/plain"]


def test_no_element_names_a_place_on_the_network(records: Records) -> None:
    view = view_of(records.study(), records.trials())
    text = page(view)
    markup = re.sub(r"<script\b.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"https?:|(src|href)=\"//|@import", markup)
    assert not re.search(r"<[^>]+ on[a-z]+=", markup)
    for own in page_scripts(sections(view)):
        assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|sendBeacon)\b\(?", own)


def test_texts_from_outside_are_no_markup(records: Records) -> None:
    study = replace(records.study(), name=HOSTILE)
    setting = replace(records.setting, device_name=HOSTILE)
    trial = records.trials()[0]
    trial = replace(trial, runs=(replace(trial.runs[0], setting=setting),))
    text = page(view_of(study, [trial]))
    markup = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert "<img" not in markup
    assert "<b>bold" not in markup
    assert "49" not in re.findall(r"<h1>(.*?)</h1>", markup)[0]
    assert "&lt;img src=x onerror=alert(1)&gt;" in markup


def test_the_first_of_a_very_long_front_are_in_the_table(records: Records) -> None:
    trials = [records.complete(n, 0.9, 9.0, 9.0, epochs=()) for n in range(205)]
    text = page(view_of(records.study(budget=205), trials))
    table = re.search(r'<table id="front-table">(.*?)</table>', text, re.DOTALL)
    assert table is not None
    assert len(re.findall("data-trial=", table[1])) == 200
    assert "The 200 of highest accuracy out of 205" in text
    assert len(rows_of(text)) == 205


@pytest.mark.parametrize(
    ("kind", "shown", "hidden"),
    [
        ("empty", ["No trial has started yet."], ['id="mine"', 'id="uncertainty"']),
        ("failed", ["No trial is complete yet", 'id="timeline"'], ['id="curves"']),
        ("running", ["2 of 5 epochs done", 'id="curves"'], ['id="mine"']),
        ("one", ['id="mine"', "1.000"], ['id="why"']),
        ("full", ['id="why"', 'id="paper"', 'id="parallel"', "hollow: shared weights"], []),
        ("runs", ["bar: lowest to highest run"], []),
    ],
)
def test_sections_come_with_what_they_say(
    records: Records, kind: str, shown: list[str], hidden: list[str]
) -> None:
    text = page(stored_of(kind, records))
    markup = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    for words in shown:
        assert words in markup
    for words in hidden:
        assert words not in markup


def test_a_page_of_estimates_says_what_are_means_and_what_are_not(records: Records) -> None:
    stored = stored_of("repeated", records)
    words = "mean over the trial's runs", "Accuracies are estimates", "means over all runs"
    text = unescape(page(view_of(stored.study, stored.records)))
    assert [each in text for each in words] == [False, False, True]
    text = unescape(page(view_of(stored.study, estimated(stored.records, study=stored.study))))
    assert [each in text for each in words] == [True, True, True]


def css_colours() -> list[dict[str, str]]:
    """The colours of the style sheet by name: on a light page, and on a dark one."""
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\n\s*\}", style, flags=re.DOTALL)[:2]
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w{6});", block)) for block in blocks)
    return [light, {**light, **dark}]


@pytest.mark.parametrize("place", [0, 1], ids=["light", "dark"])
def test_every_text_stands_out_from_what_is_behind_it(place: int) -> None:
    # WCAG 2.2, criteria 1.4.3 (text) and 1.4.11 (what bounds a field).
    colours = css_colours()[place]
    for text, backs in {
        "text": ("page", "card", "marked", "warn-back"),
        "muted": ("page", "card", "marked"),
        "link": ("page", "card", "marked", "warn-back"),
        "bad": ("card", "marked"),
        "card": ("link",),
    }.items():
        for back in backs:
            assert contrast(colours[text], colours[back]) >= 4.5, (text, back)
    for back in ("page", "card"):
        assert contrast(colours["line"], colours[back]) >= 3, back


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_what_is_no_file_is_not_replaced(records: Records, tmp_path: Path, kind: str) -> None:
    path = Path("/dev/null") if kind == "device" else tmp_path / "page.html"
    if kind == "pipe":
        os.mkfifo(path)
    if kind == "folder":
        path.mkdir()
    before = path.stat()
    what = "a folder" if kind == "folder" else "a device or pipe"
    with pytest.raises(DiskError, match=f"must be writable at {path}, got: {what}; name another"):
        write_report(ReportView(records.study(), ()), path=path)
    assert (path.stat().st_ino, path.stat().st_mode) == (before.st_ino, before.st_mode)
    assert kind == "device" or list(tmp_path.iterdir()) == [path]


def cells(text: str) -> dict[int, list[str]]:
    """Texts of the cells of the front's table by trial, with a bar where a line ends."""
    table = re.search(r'<table id="front-table">(.*?)</table>', text, re.DOTALL)
    assert table is not None
    rows = re.findall(r'<tr data-trial="(\d+)">(.*?)</tr>', table[1], re.DOTALL)
    return {
        int(number): [
            re.sub("<[^>]+>", "", cell.replace("<small>", "|")).replace("\u00a0", " ").strip()
            for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)
        ]
        for number, row in rows
    }


def test_the_fronts_table_says_how_sure_it_is(records: Records) -> None:
    view = stored_of("repeated", records)
    found = cells(page(view))
    # Five runs: margins of 0.196 points and, at 94 s, of twice 1,000 times as many seconds.
    assert found[5][1:7] == ["97.00 %|± 0.20", "96.60 %", "94.0|± 3.9", "1,915,440", "5", "100 %"]
    assert found[2][1:6] == ["96.20 %|± 2.54", "95.80 %", "118.0|± 12.7", "1,841,712", "2"]
    assert found[9][5] == "2"
    assert found[7][1:6] == ["92.10 %", "91.70 %", "62.3", "1,557,040", "1"]
    for number, row in found.items():
        assert row[6] == f"{100 * view.front_probabilities[number]:.0f} %"
    text = " ".join(page(view).replace("\u00a0", " ").split())
    assert "Trials on the front were trained 1 to 5 times" in text
    assert "pooled over the 3 trials of the study that were trained more than once" in text
    sure = f"{100 * view.front_probabilities[1]:.0f}"
    assert f"Trial 1 ({sure} %) is not on the front but may belong there." in text
    assert "othing was repeated" not in re.sub("<script.*?</script>", "", text)


def test_where_nothing_was_repeated_the_page_says_so(records: Records) -> None:
    view = view_of(records.study(), records.trials())
    text = " ".join(page(view).split())
    assert {row[5] for row in cells(text).values()} == {"?"}
    line = "<code>fastrcaps-search run --study mnist-mini --runs-on-front 5</code>"
    assert f"? nothing was repeated: {line} says how sure the front is." in text
    words = "Nothing was repeated, so nothing says how far luck of the seed reaches: "
    assert words + line in text
    # Planned, but none has ended yet: five trials of one run are to have two.
    planned = view_of(replace(records.study(), front_runs=2), records.trials())
    expected = "? nothing has been repeated yet; 5 planned runs say how sure the front is."
    assert expected in page(planned)
