"""Hand-made records, and a browser that says everything it is unhappy about."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Page, ViewportSize, expect, sync_playwright

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.front.hypervolume import Box
from fastrcaps_search.metrics import EpochMetrics, RunSetting
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.report.write import write_report
from fastrcaps_search.store.holders import ClaimRecord, LeaseRecord
from fastrcaps_search.store.records import (
    EpochRecord,
    Failure,
    RunRecord,
    StudyRecord,
    TrialState,
)
from fastrcaps_search.store.trials import TrialRecord
from tests.triples import values_of

SETTING = RunSetting("cpu", "Test CPU @ 2 GHz", "2.14.1", "fp32", 1, "batched")

FLAGS = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
]

SHARED = "full.html"
USUAL_VIEW = """async () => {
    // What an earlier test has set is written first, or it would be written over this.
    dispatchEvent(new Event("pagehide"));
    // The event comes later than the change: what a test does next must not be undone by it.
    const told = new Promise((done) => addEventListener("hashchange", done, { once: true }));
    location.hash = "#time=seconds";
    await told;
    scrollTo(0, 0);
    await new Promise(requestAnimationFrame);
}"""
"""Shows what is shown when the page is opened, and waits until it is."""
DATE = datetime(2026, 3, 1, 14, 5, tzinfo=UTC)
"""The date that pages show."""

# policy, batch policy, P, decoder, shared weights; accuracy, seconds, parameters. By hand: nothing
# beats 5, 7, 9 (highest, fastest, smallest) nor 2 and 8; 0 and 4 lose to 8, 1 and 10 to 5,
# 3 to 2, 6 to 2.
TRIALS: list[tuple[tuple[str, str | None, int | None, str, bool], tuple[float, float, int]]] = [
    (("fixed", "constant", None, "full", False), (0.938, 96.1, 1_915_440)),
    (("one_cycle", "constant", None, "full", False), (0.952, 95.0, 1_915_440)),
    (("warm_adabatch", None, 4, "reduced", False), (0.962, 118.0, 1_841_712)),
    (("exponential_decay", "adabatch", 3, "reduced", False), (0.957, 171.0, 1_841_712)),
    (("fixed", "constant", None, "reduced", False), (0.931, 97.2, 1_841_712)),
    (("warm_adabatch", None, 3, "full", False), (0.970, 94.0, 1_915_440)),
    (("fixed", "adabatch", 4, "reduced", False), (0.944, 150.5, 1_841_712)),
    (("warm_restarts", "constant", None, "full", True), (0.921, 62.3, 1_557_040)),
    (("one_cycle", "constant", None, "reduced", True), (0.944, 79.9, 1_483_312)),
    (("warm_restarts", "adabatch", 5, "reduced", True), (0.948, 104.4, 1_483_312)),
    (("exponential_decay", "constant", None, "full", False), (0.941, 98.0, 1_915_440)),
]
FRONT = [5, 2, 9, 8, 7]
"""Numbers of the front of ``TRIALS``, worked out by hand, by falling accuracy."""


def parameters_of(
    lr_policy: str = "fixed",
    batch_policy: str | None = "constant",
    exponent: int | None = None,
    decoder: str = "full",
    sharing: bool = False,
) -> TrialParameters:
    named = {
        "lr_policy": lr_policy,
        "batch_policy": batch_policy,
        "adabatch_exponent": exponent,
        "decoder": decoder,
        "weight_sharing": sharing,
    }
    return TrialParameters.from_dict({k: v for k, v in named.items() if v is not None})


def epoch_record(
    epoch: int, accuracy: float, seconds: float, setting: RunSetting = SETTING, sharing: int = 1
) -> EpochRecord:
    metrics = EpochMetrics(
        epoch=epoch,
        batch_size=16,
        lr_start=1e-3,
        lr_end=1e-3,
        loss=0.1,
        classification_loss=0.08,
        reconstruction_loss=0.02,
        training_accuracy=accuracy,
        accuracy=accuracy,
        training_seconds=seconds,
        evaluation_seconds=0.5,
        steps=250,
        samples=4000,
    )
    return EpochRecord(0, 1, "worker-1", metrics, setting, sharing, 0.0)


def curve(accuracy: float, seconds: float, epochs: int = 5) -> tuple[EpochRecord, ...]:
    """Epochs that climb to ``accuracy`` in the last one."""
    return tuple(
        epoch_record(epoch, accuracy - 0.6 * 0.3**epoch * (epoch < epochs), seconds / epochs)
        for epoch in range(1, epochs + 1)
    )


NO_RESULT: dict[str, Any] = {"accuracy": None, "training_seconds": None, "best_epoch": None}


def complete(
    number: int,
    accuracy: float,
    seconds: float,
    parameters: float,
    *,
    choice: TrialParameters | None = None,
    **changes: Any,  # noqa: ANN401 - fields of the record
) -> TrialRecord:
    began, ended = 1000.0 * number, 1000.0 * number + seconds + 10
    run = RunRecord(0, 7, SETTING, True, accuracy, seconds, 5, None)
    run = replace(run, created_at=began, finished_at=ended)
    record = TrialRecord(
        number=number,
        state=TrialState.COMPLETE,
        parameters=choice or parameters_of(),
        configuration_key=str(number),
        values=values_of(accuracy, seconds, float(parameters)),
        failure=None,
        created_at=began,
        finished_at=ended,
        runs=(run,),
        epochs=curve(accuracy, seconds),
    )
    return replace(record, **changes)


def tested(trial: TrialRecord) -> TrialRecord:
    """The trial, its runs a little less accurate on the test set."""
    runs = (replace(run, test_accuracy=run.value("accuracy") - 0.004) for run in trial.runs)
    return replace(trial, runs=tuple(runs))


def failed(number: int, failure: Failure, **changes: Any) -> TrialRecord:  # noqa: ANN401 - fields
    record = complete(number, 0.1, 1.0, 1)
    runs = (replace(record.runs[0], **NO_RESULT, failure=failure),)
    record = replace(record, state=TrialState.FAILED, values=None, failure=failure, epochs=())
    record = replace(record, runs=runs)
    return replace(record, **changes)


def running(number: int, *, epochs: int = 2, **changes: Any) -> TrialRecord:  # noqa: ANN401 - fields
    record = complete(number, 0.9, 50.0, 1)
    runs = (replace(record.runs[0], **NO_RESULT, finished_at=None),)
    record = replace(record, state=TrialState.RUNNING, values=None, finished_at=None, runs=runs)
    return replace(record, epochs=record.epochs[:epochs], **changes)


def lease(number: int, *, host: str = "desk") -> LeaseRecord:
    return LeaseRecord(
        number=number,
        run=0,
        token=1,
        purpose="train",
        worker="worker-1",
        host=host,
        device="cpu",
        claimed_at=0.0,
        boot_id="boot",
        pid_namespace="ns",
        pid=1,
        process_start=1,
        renewed_at=0.0,
        lease_seconds=30.0,
        silent_seconds=0.0,
    )


def claim(number: int, token: int, worker: str, at: float, *, host: str = "desk") -> ClaimRecord:
    return ClaimRecord(
        number=number,
        run=0,
        token=token,
        purpose="train",
        worker=worker,
        host=host,
        device="cpu",
        claimed_at=at,
    )


@dataclass
class Records:
    """The builders above, and the studies that several files use."""

    complete = staticmethod(complete)
    failed = staticmethod(failed)
    running = staticmethod(running)
    lease = staticmethod(lease)
    claim = staticmethod(claim)
    parameters_of = staticmethod(parameters_of)
    epoch_record = staticmethod(epoch_record)
    setting: RunSetting = SETTING
    date: datetime = DATE
    front: list[int] = field(default_factory=lambda: list(FRONT))

    def study(self, *, budget: int = 12, **keys: Any) -> StudyRecord:  # noqa: ANN401
        values = {
            "name": "mnist-mini",
            "network": "capsnet-narrow",
            "data_set": "mnist-mini",
            "epochs": 5,
            "boundaries": [1, 2, 3],
            **keys,
        }
        definition = StudyDefinition.from_dict(values)
        # As a first trial of 94 s and five epochs fixes it.
        box = Box.of(definition, epoch_seconds=94 / 5)
        return StudyRecord(1, definition.name, "uid", definition, 7, budget, 0.0, box=box)

    def trials(self) -> list[TrialRecord]:
        """Eleven complete trials; those on the front have been tested."""
        return [
            tested(trial) if trial.number in FRONT else trial
            for trial in (
                complete(number, *values, choice=parameters_of(*choice))
                for number, (choice, values) in enumerate(TRIALS)
            )
        ]


@pytest.fixture(scope="session")
def records() -> Records:
    return Records()


@dataclass
class Opened:
    """A page that was opened from ``path``, and what the browser said meanwhile."""

    path: Path
    page: Page
    said: list[str]
    requests: list[str]

    def complaints(self) -> list[str]:
        """All but remarks, which the software renderer and Plotly's canvas draw from Chromium."""
        return [said for said in self.said if not said.startswith("warning")]

    def draw_all(self) -> None:
        """Scroll through the page, which draws each figure when it comes into view."""
        for place in self.page.locator(".plot:visible:not(.absent)").all():
            place.scroll_into_view_if_needed()
            place.locator(".main-svg, canvas").first.wait_for()

    def trials(self, table: str) -> list[int]:
        """Numbers in the rows of a table."""
        rows = self.page.locator(f"#{table} tbody tr").all()
        return [int(row.get_attribute("data-trial") or -1) for row in rows]

    def embedded_front(self) -> list[dict[str, Any]]:
        """The rows of ``front --json`` that the page carries."""
        found = json.loads(self.page.locator("#report-data").text_content() or "")
        rows = {row["trial"]: row for row in found["rows"]}
        return [rows[number] for number in found["fronts"].get("seconds", ())]


def open_in(
    browser: Browser,
    path: Path,
    *,
    before: str = "",
    fragment: str = "",
    **context: Any,  # noqa: ANN401 - of playwright
) -> Opened:
    """Open a page in a context of its own; ``before`` is a script that runs ahead of its own."""
    size = ViewportSize(width=1400, height=1000)
    # A page that scrolls smoothly does so for more than a second, under the pointer of the test.
    page = browser.new_context(viewport=size, reduced_motion="reduce", **context).new_page()
    opened = Opened(path, page, [], [])
    page.add_init_script(before)
    page.on("console", lambda message: opened.said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: opened.said.append(f"error: {error}"))
    page.on("request", lambda request: opened.requests.append(request.url))

    def dismiss(dialog: Dialog) -> None:
        opened.said.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("dialog", dismiss)
    page.goto(path.as_uri() + fragment)
    page.wait_for_selector("html[data-ready]")
    return opened


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("needs chromium on the path, which is not installed here")
    # A busy machine draws slowly; what never comes is still told.
    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Opened]]:
    yield functools.partial(open_in, browser)
    # The page that the session shares came first and stays.
    for context in browser.contexts:
        if not any(SHARED in page.url for page in context.pages):
            context.close()


def write_at_fixed_date(
    path: Path,
    study: StudyRecord,
    trials: Sequence[TrialRecord],
    leases: Sequence[LeaseRecord] = (),
    claims: Sequence[ClaimRecord] = (),
    *,
    minutes: int = 0,
) -> Path:
    """Write the page as of 14:05, or so many minutes later."""
    written_at = DATE + timedelta(minutes=minutes)
    write_report(ReportView(study, trials, leases, claims, written_at=written_at), path=path)
    return path


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a report and return its path."""
    return functools.partial(write_at_fixed_date, tmp_path / "reports" / "page.html")


def moved(trial: TrialRecord) -> TrialRecord:
    """The trial in the hour before the page's date, in the same order."""
    start = (DATE - timedelta(hours=1)).timestamp()
    ended = trial.finished_at
    return replace(
        trial,
        created_at=start + trial.created_at / 4,
        finished_at=None if ended is None else start + ended / 4,
    )


@pytest.fixture(scope="session")
def shared(records: Records, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """Eleven complete trials, one failed, one running: opened once, for all tests that look."""
    failure = Failure("DivergedError", "diverged at epoch 2", "trace", "a.log")
    trials = [*records.trials(), records.failed(11, failure), records.running(12)]
    trials = [moved(trial) for trial in trials]
    # Trial 3 was lost by one worker after two epochs and taken over by another.
    claims = [claim(trial.number, 1, "worker-1", trial.created_at) for trial in trials]
    claims.append(claim(3, 2, "worker-2", trials[3].created_at + 20))
    path = tmp_path_factory.mktemp("report") / SHARED
    write_at_fixed_date(path, records.study(budget=13), trials, [records.lease(12)], claims)
    return open_in(browser, path)


@pytest.fixture
def full(shared: Opened) -> Opened:
    """The shared page as it is when it is opened, whatever was done to it before."""
    shared.page.mouse.move(0, 0)
    shared.page.evaluate(USUAL_VIEW)
    return shared


@pytest.fixture
def page(full: Opened) -> Iterator[Page]:
    """The tab of the shared page, which must not complain of what is done to it."""
    yield full.page
    assert full.complaints() == []
