"""The test set, read once: by the best weights of each trial on the front."""

from __future__ import annotations

from collections.abc import Mapping

from fastrcaps_search.errors import CheckpointError
from fastrcaps_search.export.trained import evaluation_of, trained_network
from fastrcaps_search.search.runs import Workplace, checkpoint_folder, claims
from fastrcaps_search.search.trial_log import LOG
from fastrcaps_search.store.lease import ClaimedTrial
from fastrcaps_search.store.records import RunRecord, TrialRecord


def read_test_set(place: Workplace, claimed: ClaimedTrial, record: TrialRecord) -> None:
    """Store the test accuracy of every run of a trial on the front that has none yet.

    Args:
        place: The worker's study and images.
        claimed: The claim.
        record: The trial with its epochs, which say whose weights count.

    Raises:
        CheckpointError: The weights of a run are missing or damaged; the other runs were tested.
    """
    missing = []
    for run in record.untested:
        try:
            reached = _test_accuracy(place, claimed, run, claims(record, run=run.run))
        except CheckpointError as error:
            missing.append(error)
            continue
        claimed.store_test_accuracy(run.run, reached)
        LOG.info("run %d: test accuracy %.4f", run.run, reached)
    if missing:
        raise missing[0]


def _test_accuracy(
    place: Workplace, claimed: ClaimedTrial, run: RunRecord, known: Mapping[int, int]
) -> float:
    best = run.best_epoch
    if best is None or best not in known:
        raise CheckpointError(f"run {run.run} must have a stored best epoch, got: {best}")
    definition, parameters = place.study.definition, claimed.claim.parameters
    folder = checkpoint_folder(claimed, study=place.study, run=run.run, seed=run.seed, known=known)
    network = trained_network(definition, parameters, folder.weights(best))
    test = place.splits.test
    evaluation, _ = evaluation_of(
        network, test.labels.device, precision=definition.precision, stored=run.setting.kernel
    )
    return evaluation.accuracy(test)
