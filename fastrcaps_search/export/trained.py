"""A trained network from its weights, classifying as after each epoch of its training."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fastrcaps_search.capsnet.network import build_network
from fastrcaps_search.capsnet.trainable import TrainableNetwork, TrainedNetwork
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.training.checkpoint import require_fit
from fastrcaps_search.training.kernels import choose_kernel
from fastrcaps_search.training.precision import use_precision
from fastrcaps_search.training.trainer import make_step


def trained_network(
    definition: StudyDefinition, parameters: TrialParameters, weights: Mapping[str, Tensor]
) -> TrainableNetwork:
    """The network of a trial with these weights, on the CPU, in evaluation mode.

    Raises:
        CheckpointError: The weights are those of another network.
        ValueError: The study has no such network.
    """
    # The first weights, soon overwritten, must not use up the caller's random numbers.
    with torch.random.fork_rng(devices=[]):
        network = build_network(
            definition.network,
            decoder=parameters.decoder,
            weight_sharing=parameters.weight_sharing,
            routing_gradient=definition.routing_gradient,
        )
    require_fit(weights, network.state_dict())
    network.load_state_dict(weights)
    return network.eval()


def classifier_of(
    network: TrainableNetwork, device: torch.device, *, definition: StudyDefinition, stored: str
) -> tuple[TrainedNetwork, str]:
    """What classifies as training does after each epoch, and the name of its kernels.

    Args:
        network: The network; it is moved to the device.
        device: Where its images are.
        definition: The study that it was trained in.
        stored: Name of the kernels that trained it, used where this machine can.
    """
    precision = definition.precision
    kernel = choose_kernel(device, network=definition.network, precision=precision, stored=stored)
    if device.type == "cuda":
        # The routing of an evaluation is never rounded.
        use_precision(network, precision, plain_routing=True)
    return make_step(network.to(device), kernel=kernel), kernel
