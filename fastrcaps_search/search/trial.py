"""One claimed trial: its runs, its values or its failure; later maybe one more run."""

from __future__ import annotations

import traceback
from statistics import fmean

from fastrcaps_search.errors import (
    DeviceError,
    DiskError,
    DivergedError,
    InterruptedRunError,
    StoreError,
    UsageError,
)
from fastrcaps_search.search import files
from fastrcaps_search.search.runs import RunTraining, Workplace
from fastrcaps_search.search.trial_log import LOG
from fastrcaps_search.store.lease import ClaimedTrial
from fastrcaps_search.store.records import DIVERGED, Failure, StudyRecord, TrialRecord, Values
from fastrcaps_search.store.repeats import ClaimedRepeat, next_run
from fastrcaps_search.training import device as devices


class TrialTraining:
    """Trains a claimed trial.

    Args:
        place: The worker's study, images and ways to tell.
        claimed: The claim.
        record: The trial as stored when it was claimed, with its epochs.
    """

    def __init__(self, place: Workplace, claimed: ClaimedTrial, record: TrialRecord) -> None:
        self._place = place
        self._claimed = claimed
        self._record = record

    def train(self) -> Failure | None:
        """Train all runs and store the values, or the failure, which is returned.

        Raises:
            InterruptedRunError: Asked to stop; the trial can be continued.
            DiskError: No room, not even for the best weights; the trial can be continued.
            StoreError: The store or the lease is lost; the trial can be continued.
            DeviceError: The device gave out; another process can continue the trial.
        """
        runs = range(self._place.study.definition.runs_per_trial)
        try:
            results = [self._run(index).train() for index in runs]
        except Exception as error:
            _raise_unless_data(error)
            failure = failure_of(error, self._claimed, self._place.study)
            self._claimed.fail(failure)
            return failure
        values = Values(
            accuracy=fmean(result.accuracy for result in results),
            training_seconds=fmean(result.training_seconds for result in results),
            parameters=fmean(result.parameters for result in results),
        )
        self._claimed.complete(values)
        LOG.info(
            "complete: accuracy %.4f, %.1f s, %d parameters",
            values.accuracy,
            values.training_seconds,
            values.parameters,
        )
        return None

    def _run(self, index: int) -> RunTraining:
        return RunTraining(
            self._place, self._claimed, self._record, index, store=self._claimed.finish_run
        )


class RepeatTraining:
    """Trains one more run of a complete trial.

    Args:
        place: The worker's study, images and ways to tell.
        claimed: The claim.
        record: The trial as stored when it was claimed, with its epochs.

    Attributes:
        index: Index of the run.
    """

    def __init__(self, place: Workplace, claimed: ClaimedRepeat, record: TrialRecord) -> None:
        self.index = next_run(record)
        self._claimed = claimed
        self._study = place.study
        self._run = RunTraining(place, claimed, record, self.index, store=claimed.finish_repeat)

    def train(self) -> Failure | None:
        """Train the run and store the trial's new values, or the failure, which is returned.

        As for the first runs, one that diverges fails the trial. After any other failure the
        trial keeps its values, and this run is not tried again.

        Raises:
            FastrcapsError: As ``TrialTraining.train``; the run can be continued.
        """
        try:
            result = self._run.train()
        except Exception as error:
            _raise_unless_data(error)
            failure = failure_of(error, self._claimed, self._study)
            self.fail(failure, ends_trial=isinstance(error, DivergedError))
            return failure
        LOG.info(
            "run %d: accuracy %.4f, %.1f s", self.index, result.accuracy, result.training_seconds
        )
        return None

    def fail(self, failure: Failure, *, ends_trial: bool = False) -> None:
        """Store that the run failed."""
        self._claimed.fail_repeat(
            self.index,
            seed=self._run.seed,
            setting=self._run.setting,
            failure=failure,
            ends_trial=ends_trial,
        )


def failure_of(error: Exception, claimed: ClaimedTrial, study: StudyRecord) -> Failure:
    """What a training that raised leaves behind, in the log too."""
    message = _first_line(error)
    trace = "".join(traceback.format_exception(error))
    LOG.error("failed: %s\n%s", message, trace)
    path = files.trial_log(claimed.store.location, study, claimed.claim.number)
    kind = DIVERGED if isinstance(error, DivergedError) else type(error).__name__
    return Failure(kind, message, trace, str(path))


def _raise_unless_data(error: Exception) -> None:
    """Raise what is no fault of the configuration; all else a training raises is data about it."""
    if isinstance(error, InterruptedRunError | DiskError | StoreError | UsageError):
        raise error
    if devices.is_device_fault(error):
        raise DeviceError(
            f"the device and its memory must last for the training, got: {_first_line(error)}"
        ) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
