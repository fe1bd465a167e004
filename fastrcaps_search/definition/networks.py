"""Networks: each one object, found by its word, known before torch is imported.

What trains stands elsewhere (``Network.implementation``). A plug-in registers its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pkgutil import resolve_name
from typing import Any, NamedTuple

from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What is known of a network before it is built.

    Attributes:
        name: Its word in study files.
        implementation: ``module:name`` of what makes the ``capsnet.trainable.TrainableNetwork``:
            called with ``arguments`` and the values of ``settings``.
        parameters: Number of parameters that training changes; called with ``decoder`` and
            ``weight_sharing``, ``None`` where they do not apply.
        settings: Which of ``decoder``, ``weight_sharing``, ``reconstruction_weight`` and
            ``routing_gradient`` it has.
        coupling_coefficients: What the paper counts beside the learned parameters: one per input
            capsule and class.
        arguments: What else the implementation is called with.
        kernel: What trains it on a processor. Its number grows with every change of the bits of a
            result, so that a run continued by another release is marked as not bit-equal.
    """

    name: str
    implementation: str
    parameters: Callable[[Decoder | None, bool | None], int]
    settings: tuple[str, ...] = ()
    coupling_coefficients: int = 0
    arguments: Mapping[str, Any] = field(default_factory=dict)
    kernel: str = "eager-2"

    @property
    def has_capsules(self) -> bool:
        """Whether capsules are routed."""
        return "routing_gradient" in self.settings

    def build(self, **settings: object) -> Any:  # noqa: ANN401  # of a layer above
        """A new network with these values of its settings; imports torch."""
        return resolve_name(self.implementation)(**self.arguments, **settings)


class Width(NamedTuple):
    """Size of a CapsNet: channels of the first convolution, types of primary capsules."""

    channels: int
    types: int


DECODER_INPUTS = {Decoder.FULL: 10 * 16, Decoder.REDUCED: 16}
"""Numbers that a decoder reads; without a decoder there is no such entry."""
LENET5_PARAMETERS = 61_706
"""6 x (5 x 5 + 1), 16 x (6 x 5 x 5 + 1), and layers of 400 to 120, 84 and 10, with biases."""


def _capsnet_parameters(width: Width, decoder: Decoder | None, weight_sharing: bool | None) -> int:
    channels, types = width
    first = channels * (9 * 9 + 1)
    primary = types * 8 * (channels * 9 * 9 + 1)
    matrices = types if weight_sharing else types * 6 * 6
    classes = matrices * 10 * 8 * 16 + 10 * 16
    inputs = None if decoder is None else DECODER_INPUTS.get(decoder)
    layers = () if inputs is None else ((inputs, 512), (512, 1024), (1024, 28 * 28))
    return first + primary + classes + sum((read + 1) * write for read, write in layers)


def _capsnet(name: str, width: Width) -> Network:
    return Network(
        name=name,
        implementation="fastrcaps_search.capsnet.network:CapsNet",
        parameters=partial(_capsnet_parameters, width),
        settings=("decoder", "weight_sharing", "reconstruction_weight", "routing_gradient"),
        coupling_coefficients=width.types * 36 * 10,
        arguments={"width": width},
        kernel="cpu-2",
    )


NETWORKS: Registry[Network] = Registry("network")

# Sabour et al. 2017, section 4.
CAPSNET = NETWORKS.register(_capsnet("capsnet", Width(channels=256, types=32)))
NETWORKS.register(_capsnet("capsnet-narrow", Width(channels=64, types=8)))
NETWORKS.register(
    Network(
        name="lenet5",
        implementation="fastrcaps_search.capsnet.lenet:LeNet5",
        parameters=lambda *_: LENET5_PARAMETERS,
    )
)
