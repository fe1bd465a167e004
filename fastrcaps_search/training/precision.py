"""The one place where a study's precision becomes settings of torch and of the network."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

from fastrcaps_search.capsnet.layers import Convolution
from fastrcaps_search.capsnet.trainable import TrainableNetwork
from fastrcaps_search.definition.choices import Precision


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
