"""When values are estimates, and that everything goes by the same ones."""

from __future__ import annotations

import csv
import io
import json
import random
from dataclasses import replace
from datetime import UTC, datetime
from statistics import pstdev
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.analysis.estimates import estimated, read_study
from fastrcaps_search.analysis.optuna_trials import frozen_trial
from fastrcaps_search.analysis.remaining_work import due_repeats
from fastrcaps_search.analysis.rows import front_rows, trial_rows
from fastrcaps_search.analysis.summary import summarise
from fastrcaps_search.cli.output import print_front
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.front.hypervolume import Box
from fastrcaps_search.front.selection import select_row
from fastrcaps_search.report.page import payload
from fastrcaps_search.report.panels import progress
from fastrcaps_search.report.sections import sections
from fastrcaps_search.report.tables import csv_text
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.search.optuna_export import OptunaExport
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import RunRecord, StudyRecord, TrialState
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord
from tests.store.workers import SETTING, claimed, complete
from tests.triples import criteria_of, values_of

if TYPE_CHECKING:
    from tests.store.conftest import OptunaOpener, QueueMaker

RUNS = [
    [(0.950, 10.0), (0.942, 11.0), (0.944, 10.5)],
    [(0.945, 10.2)],
    [(0.946, 10.4)],
    [(0.941, 9.0)],
    [(0.944, 12.0)],
    [(0.943, 11.0)],
    [(0.942, 10.0), (0.943, 10.1)],
    [(0.947, 13.0), (0.945, 12.0)],
]

WRITTEN_AT = datetime(2026, 3, 1, tzinfo=UTC)


def study_of(runs_per_trial: int) -> StudyRecord:
    definition = StudyDefinition.from_dict({"name": "s", "runs_per_trial": runs_per_trial})
    return StudyRecord(1, "s", "u", definition, 0, len(RUNS), 0.0, front_runs=3)


def trial(number: int, runs: list[tuple[float, float]]) -> TrialRecord:
    """A complete trial with these runs, one of them planned."""
    definition = study_of(1).definition
    return TrialRecord.of(
        definition,
        number=number,
        parameters=next(iter(definition.assignments())),
        configuration_key=str(number),
        created_at=0.0,
        runs=tuple(
            RunRecord(
                index, index, SETTING, True, *run, None, None, parameters=10, finished_at=1.0
            )
            for index, run in enumerate(runs)
        ),
    )


@pytest.fixture
def stored() -> list[TrialRecord]:
    return [trial(number, list(runs)) for number, runs in enumerate(RUNS)]


def test_runs_that_were_planned_for_all_keep_their_means(stored: list[TrialRecord]) -> None:
    assert estimated(stored, study=study_of(3)) == stored
    once = [trial(number, list(runs[:1])) for number, runs in enumerate(RUNS)]
    assert estimated(once, study=study_of(1)) == once
    # One run more than planned, and it was given by results.
    assert estimated(stored, study=study_of(2))[0].measured == stored[0].values


def test_fewer_than_five_complete_trials_keep_their_means(stored: list[TrialRecord]) -> None:
    stored = [stored[0], stored[6], stored[7], *stored[1:3]]
    running = replace(stored[4], state=TrialState.RUNNING, values=None, runs=())
    few = [*stored[:4], running]
    assert estimated(few, study=study_of(1)) == few
    assert estimated(stored, study=study_of(1)) != stored


def test_fewer_than_four_repeats_keep_means(stored: list[TrialRecord]) -> None:
    few = [*stored[:6], stored[7]]
    assert estimated(few, study=study_of(1)) == few
    assert estimated([*few, stored[6]], study=study_of(1))[0].measured == stored[0].values


def test_estimates_lie_closer_together_than_the_means() -> None:
    # Of equal seconds, so that accuracy alone scatters.
    stored = [trial(n, [(one, 10.0) for one, _ in runs]) for n, runs in enumerate(RUNS)]
    found = estimated(stored, study=study_of(1))
    accuracies: list[tuple[float, float]] = []
    for before, after in zip(stored, found, strict=True):
        assert before.values is not None
        assert after.values is not None
        assert after.means == before.values
        accuracies.append((before.values.accuracy, after.values.accuracy))
        assert after.accuracy_spread is not None
        low, high = after.accuracy_spread.low, after.accuracy_spread.high
        value = after.values.accuracy
        assert low < value < high
        assert after.accuracy_spread.reach(value) == max(value - low, high - value)
    measured, values = zip(*accuracies, strict=True)
    assert pstdev(values) < 0.8 * pstdev(measured)
    # Again: nothing is drawn in twice.
    assert estimated(found, study=study_of(1)) == found


def test_failed_trials_and_values_that_are_no_numbers_stay_as_they_are(
    stored: list[TrialRecord],
) -> None:
    odd = trial(8, [(float("nan"), 10.0)])
    failed = replace(trial(9, [(0.9, 1.0)]), state=TrialState.FAILED, values=None)
    found = estimated([*stored, odd, failed], study=study_of(1))
    assert found[8] is odd
    assert found[9] is failed
    assert found[:8] == estimated(stored, study=study_of(1))


def test_front_choice_page_and_files_go_by_the_same_values(stored: list[TrialRecord]) -> None:
    study = study_of(1)
    trials = estimated(stored, study=study)
    rows = trial_rows(trials)
    front = front_rows(trials)
    assert front == [rows[row["trial"]] for row in front]
    best = max(row["values"]["accuracy"] for row in rows)
    assert select_row(front, criteria_of())["values"]["accuracy"] == best
    view = ReportView(study, trials, written_at=WRITTEN_AT)
    assert view.is_estimated
    assert payload(view, sections(view))["rows"] == rows
    assert [one.number for one in view.front] == [row["trial"] for row in front]
    for line, row in zip(csv.DictReader(io.StringIO(csv_text(rows))), rows, strict=True):
        assert line["values.accuracy"] == str(row["values"]["accuracy"])
        assert line["measured.accuracy"] == str(row["measured"]["accuracy"])
    assert json.loads(json.dumps(rows[1]))["spread"]["accuracy"]["deviation"] is None
    assert rows[0]["measured"]["accuracy"] == pytest.approx((0.950 + 0.942 + 0.944) / 3)
    spread, value = rows[0]["spread"]["accuracy"], rows[0]["values"]["accuracy"]
    assert spread["low"] < value < spread["high"]
    assert frozen_trial(study, trials[0]).values == [
        *(rows[0]["measured"]["accuracy"], rows[0]["values"]["training_seconds"], 10)
    ]


def test_the_table_says_that_its_figures_are_estimates(
    stored: list[TrialRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    line = "accuracy: estimates of the true means; means of the runs: --json"
    print_front(front_rows(estimated(stored, study=study_of(1))), study_of(3), run="s")
    assert line in capsys.readouterr().out.splitlines()
    print_front(front_rows(stored), study_of(3), run="s")
    assert "estimates" not in capsys.readouterr().out


def test_a_store_says_and_repeats_by_estimates(
    location: Location,
    definition: StudyDefinition,
    make_queue: QueueMaker,
    store: Store,
    open_optuna: OptunaOpener,
) -> None:
    study = enter_study(location, definition, seed=None, budget=6, front_runs=2)
    queue = make_queue()
    first = [(0.90, 5.0), (0.91, 5.2), (0.89, 4.9), (0.90, 5.1), (0.92, 5.3), (0.88, 5.4)]
    for accuracy, seconds in first:
        complete(store, claimed(queue), values_of(accuracy, seconds, 10))
    assert all(one.measured is None for one in store.trials(study))
    for again in (0.90, 0.905, 0.895, 0.91):
        assert all(one.measured is None for one in read_study(store, "tiny").trials)
        claim = claimed(queue)
        complete(store, claim, values_of(again, 5.05, 10))
        number = claim.key.number
        assert claim.key.run == 1
    trials = read_study(store, "tiny").trials
    assert all(one.measured is not None for one in trials)
    mean = trials[number].means
    assert mean is not None
    assert mean.accuracy == pytest.approx((first[number][0] + again) / 2)
    assert trials[number].values != mean
    # The next claim is that of the first trial that is due by these values.
    assert claimed(queue).key == due_repeats(trials, 2)[0]
    (one,) = store.trials(study, number=number)
    assert one.values == mean
    # Optuna's tables, which let nothing be changed, have the means of when a trial was added.
    export = OptunaExport(store, "tiny")
    assert export.wait_and_add(seconds=30)
    export.close()
    theirs = open_optuna().get_all_trials(1)
    assert [each.values[0] for each in theirs] == [
        each.means.accuracy for each in trials if each.means is not None
    ]


def test_the_hypervolume_only_grows_though_every_trial_moves_the_estimates(
    stored: list[TrialRecord],
) -> None:
    generator = random.Random(2)
    more = [
        trial(8 + n, [(0.94 + generator.gauss(0, 0.004), 10 + generator.gauss(0, 1.5))])
        for n in range(12)
    ]
    box = Box.of(study_of(1).definition, epoch_seconds=0.5)
    study = replace(study_of(1), box=box)
    volumes, moved = [], set()
    for count in range(len(stored), len(stored) + len(more) + 1):
        trials = estimated([*stored, *more][:count], study=study)
        assert trials[0].measured is not None
        assert trials[0].values is not None
        moved.add(trials[0].values.accuracy)
        volumes.append(summarise(study, trials, []).hypervolume or 0.0)
        ended = [replace(one, finished_at=float(one.number)) for one in trials]
        view = ReportView(study, ended, written_at=WRITTEN_AT)
        shown = progress.gather(view)
        assert shown is not None
        assert shown.hypervolumes[-1] == pytest.approx(volumes[-1])
    assert volumes == sorted(volumes)
    assert len(moved) > 6
