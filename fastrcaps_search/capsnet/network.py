"""CapsNet, and the one way to build any network."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fastrcaps_search.capsnet.cpu.matmul import MatmulBackend
from fastrcaps_search.capsnet.cpu.step import CpuStep
from fastrcaps_search.capsnet.cuda.routing import can_route
from fastrcaps_search.capsnet.layers import (
    KERNEL,
    CapsuleDecoder,
    ClassCapsules,
    Convolution,
    PrimaryCapsules,
    margin_loss,
    reconstruction_loss,
)
from fastrcaps_search.capsnet.routing import safe_length
from fastrcaps_search.capsnet.trainable import Losses, TrainableNetwork, count_correct
from fastrcaps_search.definition.choices import Decoder, RoutingGradient
from fastrcaps_search.definition.networks import NETWORKS, Width
from fastrcaps_search.definition.parameters import RECONSTRUCTION_WEIGHT


class CapsNetOutput(NamedTuple):
    """What one forward pass gives.

    Attributes:
        lengths: Class-capsule lengths [B, 10], the longest names the class.
        capsules: Class capsules [B, 10, 16].
        reconstructions: [B, 784] in (0, 1); ``None`` without a decoder.
    """

    lengths: Tensor
    capsules: Tensor
    reconstructions: Tensor | None


class CapsNet(TrainableNetwork):
    """Capsule network with dynamic routing and a reconstruction decoder (Sabour et al. 2017).

    Args:
        width: Channels and capsule types.
        decoder: What the decoder reads; ``NONE`` for a network without one.
        weight_sharing: One class-capsule matrix per type at all positions.
        routing_gradient: Which routing iterations the gradient flows through.
        reconstruction_weight: Weight of the reconstruction loss.
    """

    rounds_itself: ClassVar[bool] = True

    def __init__(
        self,
        width: Width,
        *,
        decoder: Decoder,
        weight_sharing: bool,
        routing_gradient: RoutingGradient = RoutingGradient.FULL,
        reconstruction_weight: float = RECONSTRUCTION_WEIGHT,
    ) -> None:
        super().__init__()
        self.types = width.types
        self.convolution = Convolution(1, width.channels, KERNEL)
        self.primary_capsules = PrimaryCapsules(width.channels, types=width.types)
        self.class_capsules = ClassCapsules(
            width.types, weight_sharing=weight_sharing, routing_gradient=routing_gradient
        )
        self.decoder = None if decoder is Decoder.NONE else CapsuleDecoder(decoder)
        self.reconstruction_weight = reconstruction_weight

    def capsules(self, images: Tensor) -> Tensor:
        """Class capsules [B, 10, 16] of images [B, 1, 28, 28] in [0, 1]."""
        primary = self.primary_capsules(F.relu(self.convolution(images)))
        capsules: Tensor = self.class_capsules(primary)
        return capsules

    def forward(self, images: Tensor, labels: Tensor | None = None) -> CapsNetOutput:
        """Lengths, capsules and reconstructions.

        The decoder reads the capsule of the label in training mode where labels are given, and
        the longest capsule in every other case; in evaluation mode labels change nothing.

        Args:
            images: [B, 1, 28, 28] in [0, 1].
            labels: int64 [B].
        """
        capsules = self.capsules(images)
        lengths = safe_length(capsules, dim=2)
        by_label = self.training and labels is not None
        chosen = labels if by_label and labels is not None else lengths.detach().argmax(1)
        reconstructions = None if self.decoder is None else self.decoder(capsules, chosen)
        return CapsNetOutput(lengths, capsules, reconstructions)

    def classify(self, images: Tensor) -> Tensor:
        """Class-capsule lengths [B, 10] of images [B, 1, 28, 28]; the decoder does not run."""
        return safe_length(self.capsules(images), dim=2)

    def loss(self, images: Tensor, labels: Tensor) -> Losses:
        """Margin and reconstruction loss of images [B, 1, 28, 28] with int64 labels [B]."""
        output = self.forward(images, labels)
        classification = margin_loss(output.lengths, labels)
        reconstruction = (
            classification.new_zeros(())
            if output.reconstructions is None
            else reconstruction_loss(
                output.reconstructions, images, weight=self.reconstruction_weight
            )
        )
        return Losses(
            total=classification + reconstruction,
            classification=classification,
            reconstruction=reconstruction,
            correct=count_correct(output.lengths, labels),
        )

    @property
    def reconstructs(self) -> bool:
        """Whether it has a decoder."""
        return self.decoder is not None

    def reconstruct(self, images: Tensor) -> Tensor:
        """What the decoder makes of the longest capsules, in evaluation mode [B, 784]."""
        pictures = self.forward(images).reconstructions
        assert pictures is not None
        return pictures

    def fast_step(self, backend: MatmulBackend) -> CpuStep:
        """The step written out (``capsnet.cpu``)."""
        return CpuStep(self, backend=backend)

    def routes_plainly(self) -> bool:
        """Whether Triton's routing does not run on the network's card."""
        return not can_route(torch.zeros(1, device=self.class_capsules.bias.device))


def build_network(
    network: str,
    *,
    decoder: Decoder | None,
    weight_sharing: bool | None,
    routing_gradient: RoutingGradient = RoutingGradient.FULL,
    reconstruction_weight: float | None = None,
) -> TrainableNetwork:
    """A new network, its initial weights drawn from torch's global generator.

    Args:
        network: Which one.
        decoder: What the decoder reads; ``None`` for a network that has no choice, and only there.
        weight_sharing: Whether class-capsule weights are shared; ``None`` as for the decoder.
        routing_gradient: Which routing iterations the gradient flows through, where it routes.
        reconstruction_weight: Weight of the reconstruction loss, which only training needs;
            ``None`` for the usual one.

    Raises:
        ValueError: ``decoder`` or ``weight_sharing`` is missing, or given where it does not apply.
    """
    known = NETWORKS[network]
    given: dict[str, Any] = {"decoder": decoder, "weight_sharing": weight_sharing}
    needed = [key for key in given if key in known.settings]
    if [key for key in given if given[key] is not None] != needed:
        raise ValueError(
            f"{network} must have values of {', '.join(needed) or 'no parameter'}, "
            f"got decoder={decoder!r} and weight_sharing={weight_sharing!r}"
        )
    weight = RECONSTRUCTION_WEIGHT if reconstruction_weight is None else reconstruction_weight
    given |= {"routing_gradient": routing_gradient, "reconstruction_weight": weight}
    chosen = {key: given[key] for key in known.settings}
    built: TrainableNetwork = known.build(**chosen)
    return built


def learned_parameters(network: nn.Module) -> int:
    """Number of parameters that training changes."""
    return sum(p.numel() for p in network.parameters() if p.requires_grad)
