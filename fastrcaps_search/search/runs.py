"""What a worker does with a claimed run: train it or test it, and store what came of it."""

from __future__ import annotations

import traceback

from fastrcaps_search.errors import DivergedError, FastrcapsError, InterruptedRunError
from fastrcaps_search.search import files
from fastrcaps_search.search.checkpoints import best_weights
from fastrcaps_search.search.events import WorkerEvent, named
from fastrcaps_search.search.files import LOG
from fastrcaps_search.search.run_training import RunTraining
from fastrcaps_search.search.workplace import (
    Workplace,
    device_faults,
    first_line,
    must_stop,
    stored_trial,
)
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.records import DIVERGED, Failure
from fastrcaps_search.training.kernels import classifier_of
from fastrcaps_search.training.run import trained_network
from fastrcaps_search.training.splits import hits


def train_run(place: Workplace, lease: RunLease) -> None:
    """Train a claimed run; store and tell its values, or the failure.

    Its trial fails with it where it is one of the planned runs, or diverged. After any other
    failure of a later run the trial keeps its values.

    Args:
        place: The worker's study, images and ways to tell.
        lease: The lease of the run.

    Raises:
        InterruptedRunError: Asked to stop; the run can be continued.
        DiskError: No room for the rows; the run can be continued.
        StoreError: The store or the lease is lost; the run can be continued.
        DeviceError: The device gave out; another process can continue the run.
    """
    try:
        with device_faults():
            result = RunTraining(place, lease).train()
    except DivergedError as error:
        fail_run(place, lease, kind=DIVERGED, message=str(error))
    except FastrcapsError:
        raise
    except Exception as error:
        # Whatever else a training raises is data about its configuration.
        fail_run(place, lease, kind=type(error).__name__, message=first_line(error))
    else:
        LOG.info(
            f"{lease.claim.key} complete: accuracy {result.accuracy:.4f}, "
            f"{result.training_seconds:.1f} s, {result.parameters} parameters"
        )
        place.tell(WorkerEvent.COMPLETE, **named(place.study, lease.claim.key))


def fail_run(place: Workplace, lease: RunLease, *, kind: str, message: str) -> None:
    """Store and tell that a run ended without values, by the error that is handled."""
    study, key = place.study, lease.claim.key
    log = files.run_log(lease.store.location, study, key)
    failure = Failure(kind, message, traceback.format_exc(), str(log))
    LOG.error(f"failed: {message}\n{failure.trace}")
    is_planned, diverged = key.run < study.definition.runs_per_trial, failure.is_divergence
    lease.fail(failure, ends_trial=is_planned or diverged)
    place.tell(WorkerEvent.FAILED, **named(study, key), reason=message, diverged=diverged)


def read_test_set(place: Workplace, lease: RunLease) -> None:
    """Store what the best weights of a claimed run reach on the test set.

    Args:
        place: The worker's study and images.
        lease: The lease of the run.

    Raises:
        CheckpointError: The weights are missing or damaged.
        DeviceError: The device gave out.
        DiskError: Object storage does not give the weights.
        InterruptedRunError: Asked to stop.
        LeaseLostError: Another worker has taken the run over.
    """

    def stop_if_asked() -> None:
        if must_stop(place, lease):
            raise InterruptedRunError("stopped on request; the test set is read later")

    record = stored_trial(place.study, lease)
    (run,) = (one for one in record.runs if one.run == lease.claim.key.run)
    weights = best_weights(lease.store.location, place.study, record, run)
    definition, test = place.study.definition, place.splits.test
    assert run.setting is not None
    with device_faults():
        network = trained_network(definition, record.parameters, weights)
        device, kernel = test.labels.device, run.setting.kernel
        classifier, _ = classifier_of(network, device, definition=definition, stored=kernel)
        reached = int(hits(classifier, test, look=stop_if_asked).sum()) / len(test)
    lease.store_test_accuracy(reached)
    LOG.info(f"{lease.claim.key}: test accuracy {reached:.4f}")
