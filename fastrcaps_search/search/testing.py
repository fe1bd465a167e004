"""The test set, read once: by the best weights of each trial on the front."""

from __future__ import annotations

from collections.abc import Mapping

from fastrcaps_search.capsnet.network import build_network
from fastrcaps_search.errors import CheckpointError
from fastrcaps_search.search.runs import Workplace, checkpoint_folder, claims
from fastrcaps_search.search.trial_log import LOG
from fastrcaps_search.store.lease import ClaimedTrial
from fastrcaps_search.store.records import RunRecord, TrialRecord
from fastrcaps_search.training.checkpoint import require_fit
from fastrcaps_search.training.evaluate import accuracy
from fastrcaps_search.training.kernels import choose_kernel
from fastrcaps_search.training.precision import use_precision


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
    network = build_network(
        definition.network,
        decoder=parameters.decoder,
        weight_sharing=parameters.weight_sharing,
        routing_gradient=definition.routing_gradient,
    )
    weights = folder.weights(best)
    require_fit(weights, network.state_dict())
    network.load_state_dict(weights)
    test = place.splits.test
    device = test.labels.device
    kernel = choose_kernel(
        device,
        network=definition.network,
        precision=definition.precision,
        stored=run.setting.kernel,
    )
    if device.type == "cuda":
        # As after each epoch of training; the routing of the evaluation is never rounded.
        use_precision(network, definition.precision, plain_routing=True)
    return accuracy(network.to(device), test, kernel=kernel)
