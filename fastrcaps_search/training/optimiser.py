"""Adam's state beside a network's own parameters, for the steps that go through autograd."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from fastrcaps_search.capsnet.adam import fused_adam
from fastrcaps_search.errors import CheckpointError


class ParameterAdam:
    """Adam over all parameters of a network, in tensors whose addresses never change.

    Args:
        network: The network, on its device.

    Attributes:
        parameters: By name.
    """

    def __init__(self, network: nn.Module) -> None:
        self.parameters: dict[str, Tensor] = dict(network.named_parameters())
        tensors = self.parameters.values()
        self._state = {
            "exp_avg": [torch.zeros_like(p, requires_grad=False) for p in tensors],
            "exp_avg_sq": [torch.zeros_like(p, requires_grad=False) for p in tensors],
            "step": [torch.zeros((), device=p.device) for p in tensors],
        }

    @torch.no_grad()
    def update(self, gradients: Sequence[Tensor], *, rate: float | Tensor) -> None:
        """One update.

        Args:
            gradients: Of each parameter, in order.
            rate: Learning rate.
        """
        # torch's own optimiser would take longer to set this up than a small network to train
        # (LeNet5, batch 1, one thread of a Xeon: 0.3 ms of 1.6 ms).
        torch._foreach_add_(self._state["step"], 1)
        parameters = list(self.parameters.values())
        fused_adam(
            parameters,
            [_laid_out(g, p) for g, p in zip(gradients, parameters, strict=True)],
            self._state["exp_avg"],
            self._state["exp_avg_sq"],
            self._state["step"],
            rate=rate,
        )

    def state(self) -> dict[str, Tensor]:
        """Copies on the CPU: ``exp_avg``, ``exp_avg_sq`` and ``step`` of each parameter."""
        return {
            f"{quantity}.{name}": tensor.contiguous().cpu().clone()
            for quantity, tensors in self._state.items()
            for name, tensor in zip(self.parameters, tensors, strict=True)
        }

    def load(self, stored: Mapping[str, Tensor]) -> None:
        """Take what :meth:`state` gave.

        Raises:
            CheckpointError: A state of another network.
        """
        for quantity, tensors in self._state.items():
            for name, tensor in zip(self.parameters, tensors, strict=True):
                found = stored.get(f"{quantity}.{name}")
                if found is None or found.shape != tensor.shape:
                    raise CheckpointError(
                        f"the checkpoint must hold the optimiser's state of {name}"
                    )
                tensor.copy_(found)

    def changing(self) -> list[Tensor]:
        """Every tensor that an update changes."""
        return [*self.parameters.values(), *(t for ts in self._state.values() for t in ts)]


def _laid_out(gradient: Tensor, parameter: Tensor) -> Tensor:
    """The gradient with the strides of its parameter.

    They may differ even in axes of length 1, as the single input channel.
    """
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)
