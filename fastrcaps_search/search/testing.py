"""The test set, read once: by the best weights of each trial on the front."""

from __future__ import annotations

from collections.abc import Mapping

from fastrcaps_search.errors import CheckpointError
from fastrcaps_search.search.checkpoints import run_checkpoints, tokens_by_epoch
from fastrcaps_search.search.runs import Workplace
from fastrcaps_search.search.trial_log import LOG
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.records import RunRecord
from fastrcaps_search.store.trials import TrialRecord
from fastrcaps_search.training.kernels import classifier_of
from fastrcaps_search.training.run import trained_network
from fastrcaps_search.training.splits import hits


def read_test_set(place: Workplace, lease: RunLease, record: TrialRecord) -> None:
    """Store the test accuracy of a claimed run of a trial on the front.

    Args:
        place: The worker's study and images.
        lease: The lease of the run.
        record: Its trial with its epochs, which say whose weights count.

    Raises:
        CheckpointError: The weights are missing or damaged.
    """
    key = lease.claim.key
    (run,) = (one for one in record.runs if one.run == key.run)
    reached = _test_accuracy(place, lease, run, tokens_by_epoch(record, run=run.run))
    lease.store_test_accuracy(reached)
    LOG.info("%s: test accuracy %.4f", key, reached)


def _test_accuracy(
    place: Workplace, lease: RunLease, run: RunRecord, known: Mapping[int, int]
) -> float:
    best = run.best_epoch
    if best is None or best not in known or run.setting is None:
        raise CheckpointError(f"run {run.run} must have a stored best epoch, got: {best}")
    definition, parameters = place.study.definition, lease.claim.parameters
    folder = run_checkpoints(
        lease.store.location,
        place.study,
        lease.claim.key,
        configuration_key=lease.claim.configuration_key,
        known=known,
    )
    network = trained_network(definition, parameters, folder.weights(best))
    test = place.splits.test
    classifier, _ = classifier_of(
        network, test.labels.device, definition=definition, stored=run.setting.kernel
    )
    return int(hits(classifier, test).sum()) / len(test)
