"""An exported network as ONNX, for programs without torch."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import cast

import torch
from torch import Tensor, nn

from fastrcaps_search.capsnet.trainable import TrainableNetwork
from fastrcaps_search.errors import FastrcapsError, UsageError
from fastrcaps_search.export.model_card import INPUT_SHAPE

INPUT = "images"
SCORES = "scores"
CLASSES = "classes"
CHECKED_IMAGES = (1, 7)
"""Sizes of the batches on which onnxruntime must agree."""
TIE = 1e-4
"""Scores closer than this may change places: the sums have another order."""


class _Classifier(nn.Module):
    """Scores [N, 10] and classes [N] of images [N, 1, 28, 28]."""

    def __init__(self, network: TrainableNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.network.classify(images)
        return scores, scores.argmax(dim=1)


def require_onnx() -> None:
    """Make sure that networks can be written as ONNX.

    Raises:
        UsageError: The packages of the extra are not installed.
    """
    missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"--onnx needs the package {' and '.join(missing)}, which is not installed; "
            "install it with `pip install 'fastrcaps-search[onnx]'`, or leave --onnx out"
        )


def onnx_bytes(network: TrainableNetwork) -> bytes:
    """The network as the content of an ONNX file, with which onnxruntime agrees.

    Input ``images`` float32 [N, 1, 28, 28] in [0, 1], N at least 1; outputs ``scores`` float32
    [N, 10] (capsule lengths, or LeNet5's logits) and ``classes`` int64 [N].

    Args:
        network: On the CPU, in evaluation mode.

    Raises:
        UsageError: The packages of the extra are not installed.
        FastrcapsError: onnxruntime finds other classes than torch.
    """
    require_onnx()
    classifier = _Classifier(network).eval()
    any_number = torch.export.Dim("N")
    with torch.no_grad(), warnings.catch_warnings():
        # Of the exporter and the packages below it: nothing that its user could change.
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            classifier,
            (torch.zeros(2, *INPUT_SHAPE),),
            input_names=[INPUT],
            output_names=[SCORES, CLASSES],
            dynamic_shapes=({0: any_number},),
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    if program is None:
        raise FastrcapsError("torch must give an ONNX program, got none; leave --onnx out")
    content = cast(bytes, program.model_proto.SerializeToString())
    _check(content, classifier)
    return content


@torch.no_grad()
def _check(content: bytes, classifier: _Classifier) -> None:
    """Compare onnxruntime with torch on random images."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    generator = torch.Generator().manual_seed(0)
    for count in CHECKED_IMAGES:
        images = torch.rand(count, *INPUT_SHAPE, generator=generator)
        scores, classes = classifier(images)
        found = torch.from_numpy(session.run([CLASSES], {INPUT: images.numpy()})[0])
        best = scores.gather(1, classes[:, None])
        if bool((best - scores.gather(1, found[:, None]) > TIE).any()):
            raise FastrcapsError(
                f"onnxruntime must find the classes {classes.tolist()} of random images, got "
                f"{found.tolist()}; leave --onnx out"
            )
