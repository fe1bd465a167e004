"""Training steps through torch's autograd, how they round, and the epochs made of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu.matmul import MatmulBackend, use_backend
from fastrcaps_search.capsnet.layers import Convolution
from fastrcaps_search.capsnet.trainable import (
    Losses,
    TrainableNetwork,
    TrainedNetwork,
    TrainingStep,
    fused_adam,
)
from fastrcaps_search.definition.choices import Precision
from fastrcaps_search.training.splits import EpochImages


class AutogradNetwork(TrainedNetwork):
    """A network whose own parameters are trained, in tensors whose addresses never change.

    Args:
        network: The network, on its device.
        backend: Who multiplies on a processor.
    """

    def __init__(
        self, network: TrainableNetwork, *, backend: MatmulBackend = MatmulBackend.MKL
    ) -> None:
        super().__init__(network)
        self._backend = backend
        self._parameters: dict[str, Tensor] = dict(network.named_parameters())
        tensors = self._parameters.values()
        self._adam = {
            "exp_avg": [torch.zeros_like(p, requires_grad=False) for p in tensors],
            "exp_avg_sq": [torch.zeros_like(p, requires_grad=False) for p in tensors],
            "step": [torch.zeros((), device=p.device) for p in tensors],
        }

    def copy_to_module(self) -> None:
        """Nothing to do: the network's own parameters are trained."""

    @torch.no_grad()
    def classes(self, batches: Iterable[Tensor]) -> Tensor:
        """Classes [N] of batches of images, in evaluation mode."""
        was_training = self.network.training
        self.network.eval()
        with use_backend(self._backend):
            found = [self.network.classify(images).argmax(dim=1) for images in batches]
        self.network.train(was_training)
        return torch.cat(found)

    def optimiser_state(self) -> dict[str, Tensor]:
        """Copies of Adam's state on the CPU."""
        return {
            f"{quantity}.{name}": tensor.contiguous().cpu().clone()
            for quantity, tensors in self._adam.items()
            for name, tensor in zip(self._parameters, tensors, strict=True)
        }

    def load(self, network: Mapping[str, Tensor], optimiser: Mapping[str, Tensor]) -> None:
        """Go on from stored states, copied into the tensors that are there."""
        self.network.load_state_dict(network)
        for quantity, tensors in self._adam.items():
            for name, tensor in zip(self._parameters, tensors, strict=True):
                tensor.copy_(optimiser[f"{quantity}.{name}"])

    def _losses_and_gradients(
        self, images: Tensor, labels: Tensor
    ) -> tuple[Losses, tuple[Tensor, ...]]:
        with use_backend(self._backend):
            losses = self._losses(images, labels)
            return losses, torch.autograd.grad(losses.total, list(self._parameters.values()))

    def _losses(self, images: Tensor, labels: Tensor) -> Losses:
        return self.network.loss(images, labels)

    def _update(self, images: Tensor, labels: Tensor, *, rate: float | Tensor) -> None:
        losses, gradients = self._losses_and_gradients(images, labels)
        parameters, adam = list(self._parameters.values()), self._adam
        with torch.no_grad():
            # One kernel for all of them, as torch's own fused Adam counts.
            torch._foreach_add_(adam["step"], 1)
            fused_adam(
                parameters,
                [_laid_out(g, p) for g, p in zip(gradients, parameters, strict=True)],
                adam["exp_avg"],
                adam["exp_avg_sq"],
                adam["step"],
                rate=rate,
            )
            means = torch.stack([losses.total, losses.classification, losses.reconstruction])
            self._sums[:3].add_(means, alpha=labels.shape[0])
            self._sums[3].add_(losses.correct)


class EagerStep(AutogradNetwork, TrainingStep):
    """Forward, backward and Adam, each started from Python, on any device."""

    def __init__(
        self, network: TrainableNetwork, *, backend: MatmulBackend = MatmulBackend.MKL
    ) -> None:
        super().__init__(network, backend=backend)
        self._warm: set[int] = set()

    def warm_up(self, size: int) -> None:
        """Run forward and backward once without an update, when the size is new."""
        if size in self._warm:
            return
        self._warm.add(size)
        images = torch.zeros(size, 1, 28, 28, device=self.device)
        labels = torch.zeros(size, dtype=torch.int64, device=self.device)
        self._losses_and_gradients(images, labels)

    def __call__(self, images: Tensor, labels: Tensor, *, rate: float) -> None:
        """One update."""
        self._update(images, labels, rate=rate)


class StepTrainer:
    """Epochs of one network: one step after the other, each started from Python.

    Args:
        step: The step.
        images: Draws the batches.
    """

    def __init__(self, step: TrainingStep, images: EpochImages) -> None:
        self.trained = step
        self._images = images

    def warm_up(self, sizes: Iterable[int]) -> None:
        """Do the set-up work of these batch sizes, so that no clock sees it."""
        for size in sizes:
            self.trained.warm_up(size)

    def epoch(
        self, epoch: int, sizes: list[int], rates: list[float], *, first: int = 0
    ) -> Iterator[int]:
        """Train ``epoch`` (from 1), one update per size and rate.

        Args:
            epoch: Which.
            sizes: Batch size of each of its steps.
            rates: Learning rate of each.
            first: Steps of it that are done already.

        Yields:
            Images trained since the last yield, whenever the caller may look after other things
            or leave the epoch for good: here after every step.
        """
        batches = self._images.epoch(epoch, sizes, first=first)
        for (images, labels), rate in zip(batches, rates[first:], strict=True):
            self.trained(images, labels, rate=rate)
            yield labels.shape[0]


def _laid_out(gradient: Tensor, parameter: Tensor) -> Tensor:
    """The gradient with the strides of its parameter.

    They may differ even in axes of length 1, as the single input channel.
    """
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


def use_precision(
    network: TrainableNetwork, precision: Precision, *, plain_routing: bool = False
) -> None:
    """Make this process and this network multiply as ``precision`` says, on CUDA.

    ============  ====================  ========================  =======
    precision     convolutions          products of the decoder   routing
    ============  ====================  ========================  =======
    FP32          float32               float32                   float32
    TF32          TF32                  TF32                      float32
    BF16          bfloat16              TF32                      float32
    ============  ====================  ========================  =======

    In BF16 the decoder keeps three bits more than it must: rounding its weights would take more
    kernels than the products save (0.7 % of the multiplications). Weights, sums and Adam are
    float32 throughout. Evaluation rounds like training in TF32, and nothing in BF16.

    Args:
        network: The network.
        precision: What to use.
        plain_routing: Whether routing runs on torch's products, which TF32 would round too; the
            decoder then stays at float32.
    """
    torch.backends.cudnn.allow_tf32 = precision is Precision.TF32
    torch.backends.cuda.matmul.allow_tf32 = precision is not Precision.FP32 and not plain_routing
    # Kernels of convolutions are picked by a measurement for each shape, outside every clock.
    torch.backends.cudnn.benchmark = True
    for module in network.modules():
        if isinstance(module, Convolution):
            module.rounded = precision is Precision.BF16


def rounding(network: TrainableNetwork, precision: Precision) -> AbstractContextManager[object]:
    """Context of a forward pass in training: torch rounds what does not round itself."""
    device = next(network.parameters()).device.type
    rounded = precision is Precision.BF16 and not network.rounds_itself
    # Rounded weights are not kept: a captured step must round those that it has just updated.
    return torch.autocast(device, dtype=torch.bfloat16, enabled=rounded, cache_enabled=False)
