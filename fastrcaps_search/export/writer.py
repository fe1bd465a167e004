"""Writes a trained network as a folder, whole or not at all; as ONNX too, for other programs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from fastrcaps_search.capsnet.trainable import TrainableNetwork
from fastrcaps_search.disk import disk_errors, reason, rename_over, replace_file, temporary_name
from fastrcaps_search.errors import FastrcapsError, UsageError
from fastrcaps_search.export.model_card import (
    CARD_FILE,
    FORMAT,
    INPUT_SHAPE,
    ONNX_FILE,
    WEIGHTS_FILE,
    ModelCard,
)
from fastrcaps_search.training.run import trained_network
from fastrcaps_search.training.tensor_file import tensor_bytes

Weights = Mapping[str, Tensor]
"""Weights by torch's names."""

INPUT = "images"
SCORES = "scores"
CLASSES = "classes"
CHECKED_IMAGES = (1, 7)
"""Sizes of the batches on which onnxruntime must agree."""
OPSET, LATEST_OPSET = 18, 23
"""Of ONNX: the lowest that torch's exporter writes, which says all that our networks do and which
onnxruntime reads from 1.14 on, and the highest that may be asked for."""
TIE = 1e-4
"""Scores closer than this may change places: the sums have another order."""


def require_free(folder: Path) -> None:
    """Make sure that a network can be exported to a folder without touching anything.

    Raises:
        UsageError: Something is there that is not an empty folder.
    """
    try:
        # It is replaced as a whole, under the feet of whoever stands in it.
        if folder.is_dir() and folder.samefile(Path.cwd()):
            found = "the working directory"
        elif folder.is_dir() and any(folder.iterdir()):
            found = "a folder with files in it"
        elif folder.is_dir() or not os.path.lexists(folder):
            return
        else:
            found = "a file"
    except OSError as error:
        found = reason(error)
    raise UsageError(
        f"--out must be a new or an empty folder, got {folder}, which is {found}; name another"
    )


def write_network(
    card: ModelCard, weights: Weights, *, folder: Path, opset: int | None = None
) -> None:
    """Write the folder of a trained network.

    The weights carry a checksum of themselves and of the files beside them.

    Args:
        card: What is known of it.
        weights: Its weights by torch's names.
        folder: New or empty, as :func:`require_free` makes sure; folders above it are made.
        opset: Of ``network.onnx``, where that is written too: what :func:`require_onnx` gave.

    Raises:
        CheckpointError: The weights do not fit the card.
        DiskError: The folder cannot be written; nothing of it stays.
    """
    network = trained_network(card.definition, card.parameters, weights)
    contents = {}
    if opset is not None:
        contents[ONNX_FILE], versions = onnx_bytes(network, opset=opset)
        card = replace(card, versions={**card.versions, **versions})
    text = json.dumps(card.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
    contents[CARD_FILE] = f"{text}\n".encode()
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    contents[WEIGHTS_FILE] = tensor_bytes(weights, {"format": FORMAT, **sums})
    with disk_errors("the network", folder):
        _write_folder(Path(os.path.realpath(folder)), contents)


def _write_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write all files under a temporary name of the folder, then rename it."""
    made = [parent for parent in folder.parents if not parent.exists()]
    temporary = temporary_name(folder)
    try:
        for name, content in contents.items():
            replace_file(temporary / name, content)
        rename_over(temporary, folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        for parent in made:
            with suppress(OSError):
                parent.rmdir()
        raise


class _Classifier(nn.Module):
    """Scores [N, 10] and classes [N] of images [N, 1, 28, 28]."""

    def __init__(self, network: TrainableNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.network.classify(images)
        return scores, scores.argmax(dim=1)


def require_onnx(opset: int | None = None) -> int:
    """Make sure that networks can be written as ONNX; the opset, the lowest one if left out.

    Raises:
        UsageError: The packages of the extra are not installed, or nothing writes that opset.
    """
    opset = OPSET if opset is None else opset
    if not OPSET <= opset <= LATEST_OPSET:
        raise UsageError(f"--opset must be from {OPSET} to {LATEST_OPSET}, got {opset}")
    missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"--onnx needs the package {' and '.join(missing)}, which is not installed; "
            "install it with `pip install 'fastrcaps-search[onnx]'`, or leave --onnx out"
        )
    return opset


def onnx_bytes(network: TrainableNetwork, *, opset: int = OPSET) -> tuple[bytes, dict[str, str]]:
    """The network as the content of an ONNX file, with which onnxruntime agrees; its versions.

    Input ``images`` float32 [N, 1, 28, 28] in [0, 1], N at least 1; outputs ``scores`` float32
    [N, 10] (capsule lengths, or LeNet5's logits) and ``classes`` int64 [N].

    Args:
        network: On the CPU, in evaluation mode.
        opset: Version of ONNX's operators; the file has the lowest IR version that they allow.

    Raises:
        FastrcapsError: onnxruntime finds other classes than torch, or cannot read the file.
    """
    from onnx.helper import find_min_ir_version_for

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
            opset_version=opset,
        )
    if program is None:
        raise FastrcapsError("torch must give an ONNX program, got none; leave --onnx out")
    model = program.model_proto
    # Torch writes another one where it knows nothing of what was asked for.
    opset = model.opset_import[0].version
    model.ir_version = find_min_ir_version_for(list(model.opset_import))
    content = cast(bytes, model.SerializeToString())
    _check(content, classifier)
    return content, {"onnx_opset": str(opset), "onnx_ir": str(model.ir_version)}


@torch.no_grad()
def _check(content: bytes, classifier: _Classifier) -> None:
    """Compare onnxruntime with torch on random images."""
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no root of their own
        said = f"onnxruntime must read what torch wrote, got: {' '.join(str(error).split())}"
        raise FastrcapsError(f"{said}; leave --opset or --onnx out") from error
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
