"""Adam (Kingma and Ba 2015), with torch's defaults, as one fused call over any tensors."""

from __future__ import annotations

import torch
from torch import Tensor

BETAS = (0.9, 0.999)
EPSILON = 1e-8


def fused_adam(
    parameters: list[Tensor],
    gradients: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    steps: list[Tensor],
    *,
    rate: float | Tensor,
) -> None:
    """Update in place: what ``torch.optim.Adam(fused=True)`` calls, without its set-up.

    The four tensors of a parameter must share their memory order, which is all that it looks at.

    Args:
        parameters: What to update; no gradient may be recorded.
        gradients: Of each.
        exp_avgs: Running mean of the gradient of each.
        exp_avg_sqs: Running mean of its square.
        steps: 0-dim float32, the number of this update, counted before.
        rate: Learning rate; a tensor on a card is not read back.
    """
    torch._fused_adam_(
        parameters,
        gradients,
        exp_avgs,
        exp_avg_sqs,
        [],
        steps,
        lr=rate,
        beta1=BETAS[0],
        beta2=BETAS[1],
        weight_decay=0.0,
        eps=EPSILON,
        amsgrad=False,
        maximize=False,
    )
