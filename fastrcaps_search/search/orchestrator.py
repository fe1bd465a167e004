"""A whole ``run``: enter the study, look at the machine, start the workers, see it through."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import replace
from typing import TypeVar

from fastrcaps_search.analysis.estimates import read_study
from fastrcaps_search.analysis.remaining_work import remaining_work
from fastrcaps_search.errors import (
    DiskError,
    FastrcapsError,
    InterruptedRunError,
    RunError,
    StoreError,
)
from fastrcaps_search.search import files
from fastrcaps_search.search.configurations import configuration_count
from fastrcaps_search.search.launch import LAUNCHERS, WorkerSpec
from fastrcaps_search.search.layouts import WorkerPlan, choose_layout, plan_workers
from fastrcaps_search.search.machine import inspect_machine
from fastrcaps_search.search.missing import missing_files
from fastrcaps_search.search.options import RunOptions, WorkerOptions, budget
from fastrcaps_search.search.optuna_export import OptunaExport
from fastrcaps_search.search.outcome import RunOutcome
from fastrcaps_search.search.slots import Slots, runtime_folder
from fastrcaps_search.search.supervise import Observer, Supervisor
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.layouts import keep_layout, stored_layouts
from fastrcaps_search.store.location import LEASE_SECONDS
from fastrcaps_search.store.retry import RetryPolicy
from fastrcaps_search.store.store import Store
from fastrcaps_search.training.resources import granted_cores

Read = TypeVar("Read")
MOST_OTHER_WORKERS = 1024
"""Of a study on this machine, started by other runs that still work."""


class RunObserver:
    """Hears how a run goes; this one says nothing."""

    def waits_for_cores(self, holders: str) -> None:
        """The cores that are to be measured on are not free: who holds them."""

    def nothing_left(self, outcome: RunOutcome) -> None:
        """The study is done."""

    def warned(self, warning: str) -> None:
        """What somebody should know, though the run goes on."""

    def training(
        self, orchestrator: Orchestrator, plan: WorkerPlan, before: RunOutcome
    ) -> AbstractContextManager[Observer]:
        """What hears the workers, for as long as they train; how the study stood before."""
        return nullcontext(lambda views, heard: None)


class Orchestrator:
    """One ``run`` or ``worker`` command, from this machine's side.

    Args:
        name: Name of the study, which is stored.
        options: What was asked.
        patience: How outages of the database are borne, and what ends the command.

    Raises:
        StudyNotFoundError: It is not stored.
    """

    def __init__(self, name: str, options: WorkerOptions, patience: RetryPolicy) -> None:
        self.options = options
        self.stop = patience.stop
        self._store = Store.writing(options.location, patience=patience)
        self._impatient = Store(options.location, self._store.engine)
        try:
            self.study = self._store.study(name)
        except BaseException:
            self.close()
            raise

    @classmethod
    def begin(cls, options: RunOptions, patience: RetryPolicy | None = None) -> Orchestrator:
        """Create the study, or go on with it."""
        # Whatever refuses the run had better do so before anything is stored.
        runtime_folder()
        patience = patience or RetryPolicy(options.store_patience)
        patience(
            lambda: enter_study(
                options.location,
                options.definition,
                seed=options.seed,
                budget=budget(options),
                front_runs=options.front_runs or 0,
            )
        )
        return cls(options.definition.name, options, patience)

    def close(self) -> None:
        """Close the connections."""
        self._store.close()

    def outcome(self, store: Store | None = None) -> RunOutcome:
        """How the study stands, read from its store or another one of the same database."""
        seen = read_study(store or self._store, self.study.name)
        possible = configuration_count(seen.study.definition)
        work = remaining_work(seen.study, seen.trials, possible=possible)
        return RunOutcome(seen.study, tuple(seen.trials), work)

    def peek(self, read: Callable[[Store], Read]) -> Read | None:
        """What is read; ``None`` when the database does not say it at once."""
        with suppress(FastrcapsError):
            return read(self._impatient)
        return None

    def tell_optuna(self, *, patiently: bool = True) -> None:
        """Add the finished trials to Optuna's tables that the workers could not.

        Args:
            patiently: Whether an outage of the database is waited for.

        Raises:
            StoreError: The database refused, or another program has a study of that name.
        """
        store = self._store if patiently else self._impatient
        with closing(OptunaExport(store, self.study.name)) as export:
            export.wait_and_add(LEASE_SECONDS)

    def run(self, observer: RunObserver) -> RunOutcome:
        """Train what is left; how the study then stands.

        Raises:
            InterruptedRunError: Asked to stop.
            UsageError: A device that was asked for is not here.
            RunError: The machine could not be measured, or the workers could not go on.
            StoreError: The database cannot be used.
        """
        # What the last workers of the study could not tell, killed in that moment.
        self.tell_optuna()
        before = self.outcome()
        if before.work.is_done:
            observer.nothing_left(before)
            return before
        self.study.definition.data_set.look(self.options.data_folder)
        for warning in missing_files(self._store, self.study):
            observer.warned(warning)
        plan = self.plan(observer, before)
        if plan.warning:
            observer.warned(plan.warning)
        if self.stop.is_set():
            raise InterruptedRunError("interrupted before anything was trained")
        try:
            with observer.training(self, plan, before) as observe:
                self.train(plan, observe)
        except FastrcapsError:
            # What ended the training is the news.
            with suppress(FastrcapsError):
                self.tell_optuna(patiently=False)
            raise
        try:
            self.tell_optuna()
        except (StoreError, DiskError) as error:
            observer.warned(f"Optuna's tables lack trials, which the next run adds: {error}")
        after = self.outcome()
        is_continuous = configuration_count(self.study.definition) is None
        if is_continuous and after.study.budget == before.study.budget and not after.work.runs:
            # The workers have ended as a continuous space had no more to offer.
            work = remaining_work(after.study, after.trials, possible=len(after.trials))
            return replace(after, work=work)
        return after

    def plan(self, observer: RunObserver, outcome: RunOutcome) -> WorkerPlan:
        """Look at the machine and choose the workers, or take those of the study's last runs.

        Raises:
            InterruptedRunError: Asked to stop.
            UsageError: A device that was asked for is not here.
            RunError: The measurement failed.
        """
        definition, options, granted = self.study.definition, self.options.devices, granted_cores()
        here = granted.amount
        before = stored_layouts(self._store, self.study, cores=here)
        asked = options.layout(1, cores=here)
        known = [name for name, stored in before.items() if asked in (None, stored.layout)]
        with Slots(owner=f"measuring for study {self.study.name}") as slots:
            if not known and options.may_use_cpu:
                slots.claim(here, stop=self.stop, waits=observer.waits_for_cores)
            machine = inspect_machine(definition, options, cores=here, known=known, stop=self.stop)
        stored, reason = before.get(machine.device_name), "as before"
        if stored is None:
            chosen, why = choose_layout(definition, options, machine, cores=here)
            stored = keep_layout(
                self._store, self.study, chosen, device_name=machine.device_name, cores=here
            )
            reason = why if stored == chosen else reason
        left = outcome.work.at_once
        return plan_workers(options, machine, stored, cores=granted, left=left, reason=reason)

    def train(self, plan: WorkerPlan, observe: Observer) -> None:
        """Start the workers and see them through.

        Raises:
            InterruptedRunError: Asked to stop.
            RunError: The workers could not go on.
        """
        # Two runs of a study on one machine must not both have a worker-0: its name tells logs,
        # claims and proposals apart.
        with Slots(
            owner=f"a run of study {self.study.name}",
            numbers=range(plan.workers + MOST_OTHER_WORKERS),
            kind=f"worker-of-{self.study.uid}",
        ) as names:
            if not names.try_claim(plan.workers):
                raise RunError(
                    f"a study must have at most {MOST_OTHER_WORKERS} workers on a machine, and "
                    f"{self.study.name} has them already; wait for some to end"
                )
            # Until it is asked something: this process waits for hours now.
            self._store.close()
            location, options = self.options.location, self.options
            specs = [
                WorkerSpec(
                    study=self.study.name,
                    name=f"worker-{number}",
                    device=plan.machine.devices[index % len(plan.machine.devices)],
                    threads=plan.threads,
                    location=location,
                    log=files.worker_log(location, self.study, f"worker-{number}"),
                    data_folder=options.data_folder,
                    lease_seconds=options.lease_seconds,
                    store_patience=options.store_patience,
                )
                for index, number in enumerate(names.held)
            ]
            Supervisor(
                specs,
                launcher=LAUNCHERS[options.launcher],
                stop=self.stop,
                observe=observe,
                max_failures=options.max_failures,
            ).run()
