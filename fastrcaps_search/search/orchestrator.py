"""A whole ``run``: enter the study, look at the machine, start the workers, see it through."""

from __future__ import annotations

import secrets
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
from fastrcaps_search.search.calibrate import announced, calibrated_device
from fastrcaps_search.search.configurations import configuration_count
from fastrcaps_search.search.engines import Cluster
from fastrcaps_search.search.entering import enter
from fastrcaps_search.search.launch import LAUNCHERS, WorkerSpec
from fastrcaps_search.search.layouts import WorkerPlan, plan_workers
from fastrcaps_search.search.missing import missing_files
from fastrcaps_search.search.options import RunOptions, WorkerOptions
from fastrcaps_search.search.optuna_export import OptunaExport
from fastrcaps_search.search.outcome import RunOutcome, placing_line
from fastrcaps_search.search.placed_worker import worker_job
from fastrcaps_search.search.placing import Placing
from fastrcaps_search.search.slots import Slots
from fastrcaps_search.search.suggest import propose
from fastrcaps_search.search.supervise import Observer, Supervisor
from fastrcaps_search.store.engine import require_file
from fastrcaps_search.store.location import LEASE_SECONDS
from fastrcaps_search.store.retry import RetryPolicy
from fastrcaps_search.store.store import Store
from fastrcaps_search.training.resources import granted_cores
from fastrcaps_search.words import plural

Read = TypeVar("Read")
MOST_OTHER_WORKERS = 1024
"""Of a study on this machine, started by other runs that still work."""


class RunObserver:
    """Hears how a run goes; this one says nothing."""

    def measures(self, line: str) -> None:
        """What is measured before anything trains, and what was found."""

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

    def placing(
        self, orchestrator: Orchestrator
    ) -> AbstractContextManager[tuple[Callable[[str], None], Observer]]:
        """What is told how an engine's jobs stand, a line each, and what hears their workers."""
        return nullcontext((lambda line: None, lambda views, heard: None))


class Orchestrator:
    """One ``run`` or ``worker`` command, from this machine's side.

    Args:
        name: Name of the study, which is stored.
        options: What was asked.
        patience: How outages of the database are borne, and what ends the command.
        cluster: The engine that places the workers, where one does.

    Raises:
        StudyNotFoundError: It is not stored.
    """

    def __init__(
        self,
        name: str,
        options: WorkerOptions,
        patience: RetryPolicy,
        *,
        cluster: Cluster | None = None,
    ) -> None:
        self.options = options
        self.stop = patience.stop
        self._cluster = cluster
        self._is_announced = False
        self._store = Store.writing(options.location, patience=patience)
        self._impatient = Store(options.location, self._store.engine)
        try:
            self.study = self._store.study(name)
        except BaseException:
            self.close()
            raise

    @classmethod
    def begin(cls, options: RunOptions, patience: RetryPolicy | None = None) -> Orchestrator:
        """Create the study, or go on with it; a run that is refused stores nothing.

        Raises:
            FastrcapsError: It is refused.
        """
        patience = patience or RetryPolicy(options.store_patience)
        cluster = enter(options, patience)
        return cls(options.definition.name, options, patience, cluster=cluster)

    @classmethod
    def join(cls, name: str, options: WorkerOptions, patience: RetryPolicy) -> Orchestrator:
        """Work on a stored study.

        Raises:
            FastrcapsError: It is not stored, or its files cannot be kept.
        """
        require_file(options.location)
        files.require_usable(options.location, patience.stop)
        return cls(name, options, patience)

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
        self._say_what_is_stored_already(observer)
        before = self.outcome()
        if self._cluster is None and not before.work.is_done:
            self._announce(observer)
        # What the last workers of the study could not tell, killed in that moment.
        self.tell_optuna()
        if before.work.is_done and not self._gives_back:
            observer.nothing_left(before)
        if isinstance(self.options, RunOptions) and self._cluster is not None:
            return self._place(self.options, self._cluster, observer, before)
        return before if before.work.is_done else self._run_here(observer, before)

    @property
    def _gives_back(self) -> bool:
        """Whether the run does no more than give jobs back to an engine."""
        return isinstance(self.options, RunOptions) and self.options.jobs == 0

    def _say_what_is_stored_already(self, observer: RunObserver) -> None:
        """Say where less was asked for than the study is to have: the largest number counts."""
        options, study = self.options, self.study
        if not isinstance(options, RunOptions) or self._gives_back:
            return
        if options.trials is not None and options.trials < study.budget:
            observer.warned(
                f"the study's budget is {study.budget} already; --trials {options.trials} changes "
                "nothing"
            )
        possible = configuration_count(study.definition)
        if options.trials is not None and possible is not None and options.trials > possible:
            observer.warned(
                f"the study has {plural(possible, 'configuration')}, each of which is trained "
                f"once; --trials {options.trials} asks for more"
            )
        if options.front_runs is not None and options.front_runs < study.front_runs:
            observer.warned(
                f"each trial on or near the front is to have {study.front_runs} runs already; "
                f"--runs-on-front {options.front_runs} changes nothing"
            )

    def _run_here(self, observer: RunObserver, before: RunOutcome) -> RunOutcome:
        """Train on this machine what is left."""
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
                parting = self.train(plan, observe)
        except FastrcapsError:
            # What ended the training is the news.
            with suppress(FastrcapsError):
                self.tell_optuna(patiently=False)
            raise
        try:
            self.tell_optuna()
        except (StoreError, DiskError) as error:
            observer.warned(f"Optuna's tables lack trials, which the next run adds: {error}")
        return self._after(before, parting)

    def _after(self, before: RunOutcome, parting: str) -> RunOutcome:
        """How the study stands once the workers have ended, or are left to themselves."""
        after = self.outcome()
        if after.work.is_done:
            return after
        has_grown = after.study.budget != before.study.budget
        if parting or has_grown or after.work.runs or not self._is_continuous:
            return replace(after, parting=parting)
        # The workers have ended as a continuous space had no more to offer.
        return _exhausted(after)

    @property
    def _is_continuous(self) -> bool:
        return configuration_count(self.study.definition) is None

    def _offered(self) -> RunOutcome:
        """How the study stands for workers to come: nobody sees how those of an engine ended."""
        found = self.outcome()
        work, trials = found.work, found.trials
        if not (self._is_continuous and work.trials and trials) or work.runs:
            return found
        # Another draw each time, as each worker's is.
        proposal = propose(found.study, trials, secrets.token_hex(4))
        return _exhausted(found) if proposal is None else found

    def _place(
        self, options: RunOptions, cluster: Cluster, observer: RunObserver, before: RunOutcome
    ) -> RunOutcome:
        """Let an engine place the workers; nothing is planned for this machine."""
        if options.location.path is not None and not self._gives_back:
            observer.warned(
                f"{options.location.shown} is a file: all jobs must run on this machine, with the "
                "file on its own disk; several machines need a PostgreSQL database"
            )
        with observer.placing(self) as (tell, observe):
            if not (before.work.is_done or self._gives_back):
                tell(
                    placing_line(
                        before,
                        workers=min(options.jobs, before.work.at_once),
                        launcher=options.launcher,
                        share=cluster.share(worker_job(options, self.study)),
                    )
                )
            placing = Placing(
                *(cluster, options, self._store, self.study),
                outcome=self._offered,
                stop=self.stop,
                tell=tell,
                observe=observe,
            )
            parting = placing.run()
        self.tell_optuna()
        if self._gives_back:
            return replace(self.outcome(), parting=parting or "no job is left")
        return self._after(before, parting)

    def plan(self, observer: RunObserver, outcome: RunOutcome) -> WorkerPlan:
        """Make sure that the device is calibrated, and choose the workers.

        Those of the study's last runs here, where nothing else was asked for.

        Raises:
            InterruptedRunError: Asked to stop.
            UsageError: A device that was asked for is not here.
            RunError: The measurement failed, or another device must be calibrated first.
        """
        options, granted = self.options.devices, granted_cores()
        found = calibrated_device(
            self._store,
            self.study,
            options,
            cores=granted.amount,
            stop=self.stop,
            is_told=self._announce(observer),
            tell=observer.measures,
            waits=observer.waits_for_cores,
        )
        return plan_workers(
            options,
            found.machine,
            found.layout,
            step_seconds=found.step_seconds,
            cores=granted,
            left=outcome.work.at_once,
            reason=found.reason,
        )

    def _announce(self, observer: RunObserver) -> bool:
        """Say once what will be measured, where that is certain; whether it was said."""
        if not self._is_announced:
            study, devices = self.study, self.options.devices
            self._is_announced = announced(self._store, study, devices, observer.measures)
        return self._is_announced

    def train(self, plan: WorkerPlan, observe: Observer) -> str:
        """Start the workers and see them through.

        Returns:
            Why one has ended although work is left, in words.

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
                    idle_limit=options.idle_limit,
                )
                for index, number in enumerate(names.held)
            ]
            supervisor = Supervisor(
                specs,
                launcher=LAUNCHERS[options.launcher],
                stop=self.stop,
                observe=observe,
                max_failures=options.max_failures,
            )
            supervisor.run()
            return supervisor.parting


def _exhausted(outcome: RunOutcome) -> RunOutcome:
    """The same of a study whose space has no more to offer."""
    possible = len(outcome.trials)
    return replace(outcome, work=remaining_work(outcome.study, outcome.trials, possible=possible))
