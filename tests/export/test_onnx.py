"""Networks as ONNX: other software finds the same classes."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from fastrcaps_search.capsnet.network import build_network
from fastrcaps_search.data.shipped import MNIST_MINI
from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.errors import UsageError
from fastrcaps_search.export.loader import load_network
from fastrcaps_search.export.writer import onnx_bytes, require_onnx

needs_onnx = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("onnx", "onnxscript", "onnxruntime")),
    reason="needs onnx, onnxscript and onnxruntime: pip install 'fastrcaps-search[onnx]'",
)


@needs_onnx
@pytest.mark.parametrize(
    ("network", "decoder", "weight_sharing"),
    [
        ("lenet5", None, None),
        ("capsnet-narrow", Decoder.FULL, False),
        ("capsnet-narrow", Decoder.REDUCED, True),
        ("capsnet-narrow", Decoder.NONE, False),
    ],
)
def test_onnxruntime_finds_the_classes_of_torch_on_real_images(
    exports: dict[str, Path],
    network: str,
    decoder: Decoder | None,
    weight_sharing: bool | None,
) -> None:
    import onnx
    import onnxruntime

    torch.manual_seed(1)
    built = build_network(network, decoder=decoder, weight_sharing=weight_sharing).eval()
    if network == "lenet5":
        # Untrained, it takes every image for the same class.
        built = load_network(exports["small-lenet"]).network
    content, versions = onnx_bytes(built)
    model = onnx.load_from_string(content)
    onnx.checker.check_model(model, full_check=True)
    # What onnxruntime reads from 1.14 on, which came in February 2023.
    assert [(one.domain, one.version) for one in model.opset_import] == [("", 18)]
    assert model.ir_version == 8
    assert versions == {"onnx_opset": "18", "onnx_ir": "8"}
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    assert (given.name, given.type, given.shape[1:]) == ("images", "tensor(float)", [1, 28, 28])
    assert isinstance(given.shape[0], str)
    images = MNIST_MINI.load(folder=None).test_images[::2]
    floats = images[:, None].astype(np.float32) / np.float32(255)
    with torch.no_grad():
        expected = built.classify(torch.from_numpy(floats)).numpy()
    for count in (1, 250):
        scores, classes = session.run(["scores", "classes"], {"images": floats[:count]})
        assert classes.dtype == np.int64
        np.testing.assert_array_equal(classes, expected[:count].argmax(axis=1))
        np.testing.assert_allclose(scores, expected[:count], atol=1e-5)
    assert len(set(expected.argmax(axis=1).tolist())) > 1


@needs_onnx
@pytest.mark.parametrize(("opset", "ir_version"), [(19, 9), (21, 10)])
def test_another_opset_finds_the_same_classes(
    exports: dict[str, Path], opset: int, ir_version: int
) -> None:
    import onnx
    import onnxruntime

    network = load_network(exports["small-lenet"])
    content, versions = onnx_bytes(network.network, opset=opset)
    assert versions == {"onnx_opset": str(opset), "onnx_ir": str(ir_version)}
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    images = MNIST_MINI.load(folder=None).test_images
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    floats = images[:, None].astype(np.float32) / np.float32(255)
    (classes,) = session.run(["classes"], {"images": floats})
    np.testing.assert_array_equal(classes, network.predict(images))


@pytest.mark.parametrize("opset", [17, 24])
def test_an_opset_that_is_not_written_is_refused(opset: int) -> None:
    with pytest.raises(UsageError, match=f"^--opset must be from 18 to 23, got {opset}$"):
        require_onnx(opset)


@pytest.mark.parametrize("missing", ["onnx", "onnxscript"])
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UsageError, match=rf"package .*{missing}.*fastrcaps-search\[onnx\]"):
        require_onnx()
