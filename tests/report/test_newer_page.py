"""A page of a study in progress notices a newer one, which ``--watch`` and ``run`` write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from fastrcaps_search.cli.report import news
from fastrcaps_search.processes import child_command
from tests.report.views import stored_of
from tests.store.workers import until
from tests.triples import values_of

if TYPE_CHECKING:
    from tests.report.conftest import Opened, Records


def test_a_repeat_that_ends_is_news(records: Records) -> None:
    before = stored_of("repeated", records)
    assert news(before) == news(stored_of("repeated", records))
    # Its last epoch had been stored before; now its result is.
    two = before.records[2]
    for end in ({"accuracy": 0.96}, {"failure": "the disk is full"}):
        runs = (*two.runs[:2], replace(two.runs[2], **end))
        trials = [replace(two, runs=runs) if t is two else t for t in before.records]
        assert news(before) != news(replace(before, records=trials))
    planned = replace(before, study=replace(before.study, front_runs=6))
    assert news(before) != news(planned)


def look_now(opened: Opened) -> None:
    """What happens when the reader comes back to the page."""
    opened.page.evaluate("dispatchEvent(new Event('focus'))")


def test_an_unfinished_page_offers_the_newer_one_and_keeps_the_view(
    records: Records, write: Callable[..., Path], open_page: Callable[..., Opened]
) -> None:
    path = write(records.study(budget=12), records.trials())
    opened = open_page(path, fragment="#prefer=time")
    banner = opened.page.locator("#newer")
    with opened.page.expect_event("frameattached"):
        look_now(opened)
    # The frame has told its date and gone: it is the same.
    expect(opened.page.locator("iframe")).to_have_count(0)
    expect(banner).to_be_hidden()

    last = records.complete(11, 0.99, 50.0, 1000)
    write(records.study(budget=12), [*records.trials(), last], minutes=1)
    look_now(opened)
    expect(banner).to_be_visible()
    assert opened.page.locator("#front-table tr[data-trial='11']").count() == 0
    opened.page.get_by_role("button", name="Reload").click()
    expect(opened.page.locator("#front-table tr[data-trial='11']")).to_have_count(1)
    expect(opened.page.locator("#newer")).to_be_hidden()
    expect(opened.page.get_by_label("prefer")).to_have_value("time")
    assert opened.complaints() == []
    # Nothing was asked for but the file itself.
    assert {url.split("#")[0] for url in opened.requests} == {path.as_uri()}


def test_a_finished_page_looks_for_nothing(
    records: Records, write: Callable[..., Path], open_page: Callable[..., Opened]
) -> None:
    opened = open_page(write(records.study(budget=11), records.trials()))
    look_now(opened)
    opened.page.evaluate("new Promise((done) => setTimeout(done))")
    assert opened.page.locator("iframe").count() == 0
    assert len(opened.requests) == 1


@contextmanager
def watching(folder: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "fastrcaps_search", "report", "--study", "tiny", "--watch"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def said_next(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_watch_writes_what_is_new_until_the_budget_is_met(
    store_study: Callable[..., None], tmp_path: Path, open_page: Callable[..., Opened]
) -> None:
    file = tmp_path / "fastrcaps.db"
    store_study(file, [values_of(0.9, 10.0, 1000.0)], budget=3)
    with watching(tmp_path) as process:
        assert said_next(process) == "reports/tiny.html\n"
        opened = open_page(tmp_path / "reports" / "tiny.html")
        assert opened.trials("front-table") == [0]
        store_study(file, [values_of(0.95, 20.0, 1000.0)], budget=3)
        assert said_next(process) == "reports/tiny.html\n"
        look_now(opened)
        opened.page.get_by_role("button", name="Reload").click()
        expect(opened.page.locator("#front-table tbody tr")).to_have_count(2)
        store_study(file, [None], budget=3)
        assert said_next(process) == "reports/tiny.html\n"
        assert process.wait(30) == 0
    assert sorted(path.name for path in (tmp_path / "reports").iterdir()) == ["tiny.html"]


def test_watch_ends_with_ctrl_c(store_study: Callable[..., None], tmp_path: Path) -> None:
    store_study(tmp_path / "fastrcaps.db", [values_of(0.9, 10.0, 1000.0)], budget=3)
    with watching(tmp_path) as process:
        assert said_next(process) == "reports/tiny.html\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr is not None
        assert process.stderr.read() == "fastrcaps-search: interrupted\n"


@contextmanager
def keeping_current(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The process that ``run`` starts beside its workers."""
    process = subprocess.Popen(
        child_command("fastrcaps_search.cli.report", "tiny"),
        cwd=folder,
        stdin=subprocess.PIPE,
        env={
            **os.environ,
            "FASTRCAPS_STORAGE": str(folder / "fastrcaps.db"),
            "FASTRCAPS_REPORT_DIR": "reports",
        },
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("how", ["closed", "terminated"])
def test_the_process_beside_a_run_writes_the_page_and_ends_with_it(
    store_study: Callable[..., None], tmp_path: Path, how: str
) -> None:
    store_study(tmp_path / "fastrcaps.db", [values_of(0.9, 10.0, 1000.0)], budget=3)
    page = tmp_path / "reports" / "tiny.html"
    with keeping_current(tmp_path) as process:
        until(page.exists)
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == 19
        if how == "closed":
            # As when the run is killed: the kernel closes its end of the pipe.
            assert process.stdin is not None
            process.stdin.close()
        else:
            process.terminate()
        assert process.wait(30) == 0
    assert [path.name for path in page.parent.iterdir()] == ["tiny.html"]
