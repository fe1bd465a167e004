"""A whole ``run``: enter the study, look at the machine, start the workers, see it through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastrcaps_search.analysis.estimates import read_study
from fastrcaps_search.analysis.remaining_work import (
    RemainingWork,
    remaining_work,
)
from fastrcaps_search.errors import DiskError, StoreUnavailableError
from fastrcaps_search.search import estimate, files, probing
from fastrcaps_search.search.configurations import configuration_count
from fastrcaps_search.search.machine import Machine, new_crew, staffed
from fastrcaps_search.search.optuna_export import OptunaExport
from fastrcaps_search.search.processes import WorkerSpec
from fastrcaps_search.search.requests import RunRequest, WorkRequest, budget
from fastrcaps_search.search.slots import CoreSlots
from fastrcaps_search.search.supervise import Observer, Supervisor
from fastrcaps_search.store.crews import keep_crew, kept_crews
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.patience import Patience
from fastrcaps_search.store.place import LEASE_SECONDS
from fastrcaps_search.store.records import StudyRecord, TrialRecord, TrialState
from fastrcaps_search.store.store import Store
from fastrcaps_search.training.resources import cores

LONG_TRIAL_SECONDS = 3600.0
MINI = "mnist-mini"


def _unheard(holders: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended.

    Attributes:
        study: The study.
        trials: All its trials, without epochs.
        work: What is left to do.
    """

    study: StudyRecord
    trials: tuple[TrialRecord, ...]
    work: RemainingWork

    @property
    def all_failed(self) -> bool:
        """Whether no trial of a finished study has values."""
        return bool(self.trials) and all(t.state is TrialState.FAILED for t in self.trials)


class StudyRun:
    """One ``run`` or ``worker`` command, from this machine's side.

    Args:
        study: The study, as it is stored.
        request: What was asked.
        patience: How outages of the database are borne, and what ends the command.
    """

    def __init__(self, study: StudyRecord, request: WorkRequest, patience: Patience) -> None:
        self.study = study
        self.request = request
        self.stop = patience.stop
        self._store = Store.writing(request.location, patience=patience)
        self._hasty = Store(request.location, self._store.engine)

    @classmethod
    def begin(cls, request: RunRequest, patience: Patience | None = None) -> StudyRun:
        """Create the study, or go on with it."""
        patience = patience or Patience(request.store_patience)
        study = patience(
            lambda: enter_study(
                request.location,
                request.definition,
                seed=request.seed,
                budget=budget(request),
                repeats=request.repeats,
            )
        )
        return cls(study, request, patience)

    @classmethod
    def join(cls, name: str, request: WorkRequest, patience: Patience | None = None) -> StudyRun:
        """Work on a study that is there.

        Raises:
            StudyNotFoundError: It is not.
        """
        patience = patience or Patience(request.store_patience)
        store = Store.writing(request.location, patience=patience)
        try:
            study = store.study(name)
        finally:
            store.close()
        return cls(study, request, patience)

    def close(self) -> None:
        """Close the connections."""
        self._store.close()

    def outcome(self) -> RunOutcome:
        """How the study stands."""
        return self._outcome(self._store)

    def glance(self) -> RunOutcome | None:
        """How the study stands; ``None`` when the database does not say so at once."""
        try:
            return self._outcome(self._hasty)
        except (StoreUnavailableError, DiskError):
            return None

    def _outcome(self, store: Store) -> RunOutcome:
        seen = read_study(store, self.study.name)
        possible = configuration_count(seen.study.definition)
        work = remaining_work(seen.study, seen.trials, possible=possible)
        return RunOutcome(seen.study, tuple(seen.trials), work)

    def tell_optuna(self) -> None:
        """Add the finished trials to Optuna's tables that the workers could not.

        Raises:
            StoreError: The database refused, or another program has a study of that name.
        """
        export = OptunaExport(self._store, self.study.name)
        try:
            export.wait_and_add(LEASE_SECONDS)
        finally:
            export.close()

    def look(self, waits: Callable[[str], None] = _unheard) -> Machine:
        """Look at the machine and choose the workers, or take those of the study's last runs.

        Args:
            waits: Called with who holds the cores, when they are not free to be measured.

        Raises:
            InterruptedRunError: Asked to stop.
            UsageError: A device that was asked for is not here.
            RunError: The measurement failed.
        """
        definition, wanted, here = self.study.definition, self.request.wanted, cores()
        before = kept_crews(self._store, self.study, cores=here)
        asked = wanted.crew(1, cores=here)
        known = [name for name, kept in before.items() if asked in (None, kept.crew)]
        with CoreSlots(owner=f"measuring for study {self.study.name}") as slots:
            if not known and wanted.may_use_cpu:
                slots.claim(here, stop=self.stop, waits=waits)
            seen = probing.look(definition, wanted, cores=here, known=known, stop=self.stop)
        name = seen.device_name
        kept = before.get(name) or new_crew(definition, wanted, seen, cores=here)
        kept = keep_crew(self._store, self.study, kept, device_name=name, cores=here)
        return staffed(wanted, seen, kept, cores=here, left=self.outcome().work.at_once)

    def plan_line(self, machine: Machine) -> str:
        """What will be done, on what, and about how long it will take."""
        outcome = self.outcome()
        work, definition = outcome.work, self.study.definition
        left = work.target - work.finished
        trials = self._store.trials(self.study, epochs=True)
        own = estimate.stored_costs(trials, device=machine.devices[0].partition(":")[0])
        each = estimate.trial_seconds(definition, machine.costs.updated(own))
        runs = work.planned_runs + len(work.repeats)
        line = (
            f"{self.study.name}: {work.finished}/{work.target} trials done, {left} to go; "
            f"{_repeats_in_words(outcome)}"
            f"{definition.network} on {definition.data_set}, {definition.split_size} images x "
            f"{definition.epochs_in_words} x {definition.runs_per_trial} "
            f"run{'s' if definition.runs_per_trial > 1 else ''}; {machine.words}; "
            f"{estimate.in_words(each / definition.runs_per_trial * runs / machine.workers)}"
            f"{' before the repeats' if left and outcome.study.repeats else ''}"
        )
        if each >= LONG_TRIAL_SECONDS:
            line += (
                f" ({estimate.in_words(each)} a trial; "
                f"`--study {MINI}` shows everything in minutes)"
            )
        return line

    def train(self, machine: Machine, *, observe: Observer) -> None:
        """Start the workers and see them through.

        Raises:
            InterruptedRunError: Asked to stop.
            RunError: The workers could not go on.
        """
        Supervisor(
            self._specs(machine),
            stop=self.stop,
            observe=observe,
            max_failures=self.request.max_failures,
        ).run()

    def _specs(self, machine: Machine) -> list[WorkerSpec]:
        location = self.request.location
        return [
            WorkerSpec(
                study=self.study.name,
                name=name,
                device=machine.devices[index % len(machine.devices)],
                threads=machine.threads,
                location=location,
                log=files.worker_log(location, self.study, name),
                data_folder=self.request.data_folder,
                lease_seconds=self.request.lease_seconds,
                store_patience=self.request.store_patience,
            )
            for index in range(machine.workers)
            for name in [f"worker-{index}"]
        ]


def _repeats_in_words(outcome: RunOutcome) -> str:
    left, planned = len(outcome.work.repeats), outcome.study.repeats
    if not planned:
        return ""
    if outcome.work.is_searching:
        return f"then repeats until each on or near the front has {planned} runs; "
    runs = f"{left} run{'' if left == 1 else 's'}"
    return f"{runs} to go until each on or near the front has {planned}; "
