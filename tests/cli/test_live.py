"""Lines of a run, where the values of its trials are estimates."""

from __future__ import annotations

import os
import pty
import termios
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from fastrcaps_search.cli.live import display
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.metrics import RunSetting
from fastrcaps_search.search.layouts import WorkerPlan
from fastrcaps_search.search.machine import MachineInfo
from fastrcaps_search.search.options import RunOptions
from fastrcaps_search.search.orchestrator import Orchestrator
from fastrcaps_search.search.queue import TrialQueue
from fastrcaps_search.search.suggest import propose
from fastrcaps_search.search.supervise import WorkerView
from fastrcaps_search.store.claiming import Claimant
from fastrcaps_search.store.location import locate
from fastrcaps_search.store.store import Store
from tests.store.workers import claimed, complete
from tests.triples import values_of

PATIENCE: dict[str, Any] = {"lease_seconds": 30.0, "store_patience": 600.0}
HERE = MachineInfo(("cpu",), RunSetting("cpu", "CPU", "2.14", "fp32", 1, "eager-2"))
PLAN = WorkerPlan(HERE, {}, workers=1, threads=1)
FIRST = [(0.90, 5.0), (0.91, 5.2), (0.89, 4.9), (0.90, 5.1), (0.92, 5.3), (0.88, 5.4)]
AGAIN = [(0.96, 6.0), (0.95, 6.1), (0.955, 6.2), (0.945, 6.3)]


def queue_of(store: Store, run: Orchestrator) -> TrialQueue:
    return TrialQueue(Claimant(store=store, study=run.study, worker="w", device="cpu"), propose)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[tuple[Orchestrator, int]]:
    """A study of six trials, some of them trained twice, and the number of the last of these."""
    definition = StudyDefinition.from_dict({"name": "tiny", "network": "lenet5", "epochs": 2})
    location = locate(str(tmp_path / "a.db"))
    options = RunOptions(
        definition=definition, trials=6, location=location, front_runs=2, **PATIENCE
    )
    with closing(Orchestrator.begin(options)) as begun, closing(Store.writing(location)) as store:
        queue = queue_of(store, begun)
        for accuracy, seconds in [*FIRST, *AGAIN]:
            claim = claimed(queue)
            complete(store, claim, values_of(accuracy, seconds, 10))
        number = claim.key.number
        yield begun, number


def test_what_a_run_says_of_a_repeated_trial_are_the_means_of_its_runs(
    run: tuple[Orchestrator, int], capsys: pytest.CaptureFixture[str]
) -> None:
    study, number = run
    accuracy, seconds = (
        (one + two) / 2 for one, two in zip(FIRST[number], AGAIN[-1], strict=True)
    )
    values = study.outcome().trials[number].values
    assert values is not None
    assert values.accuracy != pytest.approx(accuracy, abs=1e-4)
    event = {"event": "complete", "trial": number, "run": 1}
    with display(study, PLAN, Namespace(quiet=False, verbose=False)) as observe:
        observe({"w": WorkerView("w", run=1)}, ("w", event))
    assert capsys.readouterr().out == (
        f"w: trial {number} run 1 complete; means now: accuracy {100 * accuracy:.2f} %, "
        f"{seconds:.1f} s, 10 parameters\n"
    )


def test_a_trial_that_is_not_better_than_guessing_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    definition = StudyDefinition.from_dict({"name": "tiny", "network": "lenet5", "epochs": 2})
    location = locate(str(tmp_path / "a.db"))
    options = RunOptions(definition=definition, trials=1, location=location, **PATIENCE)
    with closing(Orchestrator.begin(options)) as begun, closing(Store.writing(location)) as store:
        complete(store, claimed(queue_of(store, begun)), values_of(0.1, 5.0, 10))
        event = {"event": "complete", "trial": 0}
        with display(begun, PLAN, Namespace(quiet=False, verbose=False)) as observe:
            observe({"w": WorkerView("w")}, ("w", event))
    assert capsys.readouterr().out == (
        "w: trial 0 complete: accuracy 10.00 %, 5.0 s, 10 parameters; "
        "infeasible: not better than guessing\n"
    )


@pytest.mark.parametrize(
    ("term", "begun"), [("xterm", False), ("dumb", True), ("", True), ("unknown", True)]
)
def test_a_terminal_shows_why_and_a_dumb_one_plain_lines(
    run: tuple[Orchestrator, int], monkeypatch: pytest.MonkeyPatch, term: str, begun: bool
) -> None:
    master, slave = pty.openpty()
    # Wide enough that no line is broken.
    termios.tcsetwinsize(slave, (24, 200))
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLUMNS", "200")
    views = {"w": WorkerView("w", "trains", trial=1, policy="fixed", epochs=2)}
    said: list[dict[str, Any]] = [
        {"event": "begins", "trial": 1, "policy": "fixed"},
        {"event": "failed", "trial": 1, "reason": "no more memory"},
        {"event": "died", "reason": "SIGKILL: no memory"},
        {"event": "unsaved", "trial": 1, "epoch": 2, "reason": "the disk is full"},
    ]
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        with display(run[0], PLAN, Namespace(quiet=False, verbose=False)) as observe:
            for event in said:
                observe(views, ("w", event))
        monkeypatch.undo()
    shown = ""
    with open(master, encoding="utf-8") as screen, suppress(OSError):  # noqa: PTH123 - a descriptor
        # The end of a terminal is an error.
        for line in screen:
            shown += line
    lines = [line.rsplit("\x1b[2K")[-1].strip() for line in shown.split("\n")]
    assert ("w: trial 1 begins: fixed" in lines) == begun
    for line in (
        "w: trial 1 failed: no more memory",
        "w: died (SIGKILL: no memory), starts again",
        "w: trial 1 epoch 2: the disk is full",
    ):
        assert line in lines
    # Nothing is written over on a terminal that cannot.
    assert ("\x1b" in shown) == (term == "xterm")
