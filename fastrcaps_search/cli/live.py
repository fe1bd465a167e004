"""What ``run`` shows while it trains: live lines on a terminal, plain lines elsewhere."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastrcaps_search.analysis.front import front_numbers
from fastrcaps_search.analysis.summary import eta_seconds
from fastrcaps_search.cli import output, streams
from fastrcaps_search.definition.objective import OBJECTIVES
from fastrcaps_search.report import text
from fastrcaps_search.search.events import WorkerEvent
from fastrcaps_search.search.layouts import WorkerPlan
from fastrcaps_search.search.orchestrator import Orchestrator
from fastrcaps_search.search.supervise import Heard, Observer, Views, WorkerView
from fastrcaps_search.store.records import SecondsBasis

PLAIN = {
    WorkerEvent.BEGINS: "trial {trial} begins: {policy}",
    WorkerEvent.RESUMED: "trial {trial} continues {where}",
    WorkerEvent.RESTARTED: "trial {trial} begins again: {reason}",
    WorkerEvent.DIED: "died ({reason}), starts again",
    WorkerEvent.FAULT: "trial {trial}, attempt {attempt} of {attempts}: {reason}",
    WorkerEvent.FAILED: "trial {trial} failed: {reason}",
    WorkerEvent.LOST: "trial {trial} was taken over by another worker, or has failed",
    WorkerEvent.UNSAVED: "trial {trial} epoch {epoch}: {reason}",
    WorkerEvent.STORE_OUT: "waits for the database: {reason}",
    WorkerEvent.STORE_BACK: "the database is back",
    WorkerEvent.TESTING: "trial {trial} meets the test set",
    WorkerEvent.UNTESTED: "trial {trial} cannot meet the test set: {reason}",
}
"""Lines of events that need nothing but their own facts."""
WHY = PLAIN.keys() - {WorkerEvent.BEGINS, WorkerEvent.TESTING}
"""Events that the live lines alone would not explain."""
NEWS = (WorkerEvent.COMPLETE, WorkerEvent.FAILED)
"""Events that may change the front."""


@contextmanager
def display(
    study: Orchestrator, plan: WorkerPlan, arguments: argparse.Namespace
) -> Iterator[Observer]:
    """An observer for the supervisor that prints as much as was asked for."""
    if streams.can_be_live() and not (arguments.quiet or arguments.verbose):
        from rich.live import Live

        lines = _Lines(study, plan.workers)
        with Live("", refresh_per_second=4, transient=True) as live:

            def observe(views: Views, heard: Heard | None) -> None:
                if heard is not None and heard[1]["event"] in WHY:
                    # It comes to stand above the live lines.
                    _print(study, views, heard, epochs=False)
                live.update(lines.text(views, heard))

            yield observe
    else:
        yield plain(study, arguments)


def plain(study: Orchestrator, arguments: argparse.Namespace) -> Observer:
    """An observer that prints plain lines, if any."""
    if arguments.quiet:
        return lambda views, heard: None
    return lambda views, heard: _print(study, views, heard, epochs=arguments.verbose)


def _print(study: Orchestrator, views: Views, heard: Heard | None, *, epochs: bool) -> None:
    """One line per trial that begins, goes on or ends; per epoch too when asked."""
    if heard is None:
        return
    name, event = heard
    line = _line(study, views[name], event, epochs=epochs)
    if line:
        print(f"{name}: {line}", flush=True)


def _line(study: Orchestrator, view: WorkerView, event: dict[str, Any], *, epochs: bool) -> str:
    """The line of an event; empty for none."""
    kind, trial = event["event"], event.get("trial", view.trial)
    if view.run is not None:
        trial = f"{trial} run {view.run}"
    if kind == WorkerEvent.EPOCH and epochs:
        accuracy = output.fraction(event["accuracy"])
        return f"trial {trial} epoch {event['epoch']}: accuracy {accuracy}"
    if kind == WorkerEvent.WAITING:
        return f"waits for {event['held']}" if event["held"] else "waits"
    if kind == WorkerEvent.NO_CORES:
        free = "a free core" if event["cores"] == 1 else f"{event['cores']} free cores"
        return f"waits for {free}, in use by {event['held'] or 'another process'}"
    if kind in PLAIN:
        return PLAIN[kind].format_map({**event, "trial": trial})
    if kind == WorkerEvent.COMPLETE:
        return f"trial {trial} complete{_values(study, event['trial'], only=view.run is None)}"
    return ""


def _values(study: Orchestrator, number: int, *, only: bool) -> str:
    """What the trial's runs gave so far.

    Of this trial alone: estimates and probabilities of all take a moment, beside trainings whose
    seconds are measured.

    Args:
        study: The study.
        number: The trial.
        only: Whether the trial has this run alone.
    """
    found = study.peek(lambda store: store.trials(study.study, number=number))
    if not found:
        return ": its values are stored"
    (trial,) = found
    values = trial.means
    if values is None:
        return ""
    mark = "" if trial.seconds_basis is SecondsBasis.MEASURED else text.COMPUTED
    others = "".join(
        f", {OBJECTIVES[name].label} {output.value(name, values[name])}"
        for name in output.further(values)
    )
    return (
        f"{'' if only else '; means now'}: accuracy {output.fraction(values.accuracy)}, "
        f"{mark}{values.training_seconds:.1f} s, {values.parameters:,.0f} parameters{others}"
        + ("" if trial.infeasible is None else f"; infeasible: {trial.infeasible}")
    )


class _Lines:
    """Live lines: one per worker, the front so far, and the time left."""

    def __init__(self, study: Orchestrator, workers: int) -> None:
        self._study = study
        self._workers = workers
        self._front = ""
        self._refresh()

    def text(self, views: Views, heard: Heard | None) -> str:
        """All lines."""
        if heard is not None and heard[1]["event"] in NEWS:
            self._refresh()
        lines = [self._worker(view) for view in views.values()]
        return "\n".join([*lines, self._front])

    def _worker(self, view: WorkerView) -> str:
        run = "" if view.run is None else f" run {view.run}"
        doing = "waits for the database" if view.store_is_out else view.doing
        if doing != "trains":
            trial = "" if view.trial is None else f" trial {view.trial}{run}"
            return f"{view.name}  {doing}{trial}"
        speed = view.images_per_second
        return (
            f"{view.name}  trial {view.trial}{run}  {view.policy}  "
            f"epoch {view.epoch or 1}/{view.epochs}  {output.fraction(view.accuracy)}  "
            + ("" if speed is None else f"{speed:,.0f} images/s")
        )

    def _refresh(self) -> None:
        """The line of the front, as it is; it stays while the database is out."""
        outcome = self._study.peek(self._study.outcome)
        if outcome is None:
            return
        work, trials = outcome.work, outcome.trials
        eta = eta_seconds(outcome.study, trials, work, workers=self._workers)
        left = f"time left {output.duration(eta)}"
        if work.repeats and not work.is_searching:
            left = f"{len(work.repeats)} repeats left"
        self._front = f"{work.finished}/{work.target} done, {left}"
        front = front_numbers(trials)
        if front and (values := trials[front[0]].values):
            self._front += (
                f"; front has {len(front)} trials, most accurate {front[0]} with "
                f"{output.fraction(values.accuracy)}"
            )
