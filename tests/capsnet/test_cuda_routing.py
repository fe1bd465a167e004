"""The kernels for cards: their arithmetic in Triton's interpreter, and that they compile."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from fastrcaps_search.capsnet.cuda import routing
from fastrcaps_search.capsnet.cuda.routing import can_route, largest_error, route_capsules
from fastrcaps_search.capsnet.layers import ClassCapsules
from fastrcaps_search.capsnet.routing import squash
from fastrcaps_search.definition.choices import RoutingGradient

needs_triton = pytest.mark.skipif(
    find_spec("triton") is None, reason="triton is not installed; it comes with torch for CUDA"
)

# Of triton 3.6 with numpy 2.5 the interpreter fails at loops whose length is an argument.
needs_interpreter = pytest.mark.skipif(
    find_spec("triton") is None or version("triton").startswith("3.6."),
    reason="needs triton, and newer than 3.6; it comes with torch for CUDA",
)

# Triton reads this variable when it is imported, so the interpreter needs a process of its own.
INTERPRETED = """
import json, sys, torch
from fastrcaps_search.capsnet.cuda.routing import largest_error
from fastrcaps_search.definition.choices import RoutingGradient
batch, types, sharing, gradient = json.loads(sys.argv[1])
torch.set_num_threads(1)
gradient = RoutingGradient(gradient)
print(largest_error(torch.device("cpu"), batch=batch, types=types, sharing=sharing,
                    gradient=gradient))
"""

# What a thread spills to slow memory for want of registers: 0 with triton 3.8, 8 with 3.6.
MOST_SPILLED_BYTES = 16

COMPILED = """
import re, subprocess, sys, triton
from pathlib import Path
from triton.backends import nvidia
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from fastrcaps_search.capsnet.cuda import kernels

assembler = Path(nvidia.__file__).parent / "bin" / "ptxas"
integers = {"B", "I", "shared_by", "chunks"}

def spilled(kernel, warps, **constants):
    names = kernel.arg_names
    signature = {
        name: "constexpr" if name in constants else "i32" if name in integers else "*fp32"
        for name in names
    }
    pointers = [i for i, name in enumerate(names) if signature[name] == "*fp32"]
    source = ASTSource(
        fn=kernel,
        signature=signature,
        constexprs=constants,
        attrs={(i,): [["tt.divisibility", 16]] for i in pointers},
    )
    target = GPUTarget("cuda", 90, 32)
    compiled = triton.compile(source, target=target, options={"num_warps": warps})
    Path(sys.argv[1]).write_text(compiled.asm["ptx"])
    said = subprocess.run(
        [assembler, "-v", "-arch=sm_90a", sys.argv[1], "-o", sys.argv[1] + ".cubin"],
        capture_output=True, text=True, check=True,
    ).stderr
    return re.search(r"(\\d+) bytes spill stores", said)[1]

print(spilled(kernels.sum_votes, 1, ITERATION=2, CHUNK=4, SAMPLES=1))
print(spilled(kernels.sum_votes, 4, ITERATION=2, CHUNK=12, SAMPLES=8))
print(spilled(kernels.sum_logit_gradients, 4, ITERATION=1, CHUNK=12, SAMPLES=8))
print(spilled(kernels.gradients, 1, FULL=True, SAMPLES=2))
print(spilled(kernels.finish_sums, 4, CHUNKS=512))
print(spilled(kernels.finish_slopes, 4, CHUNKS=512))
"""


# Batch, types, sharing, gradient.
CASES = [
    (1, 2, True, "full"),
    # Each takes ten seconds.
    pytest.param((3, 1, False, "full"), marks=pytest.mark.endurance),
    (9, 1, True, "last"),  # two tiles of samples, the second nearly empty
]


def start(script: str, argument: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, argument],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def numbers(process: subprocess.Popen[str]) -> list[float]:
    """What a process prints before its good end."""
    said, complaints = process.communicate()
    assert process.returncode == 0, complaints
    return [float(line) for line in said.split()]


def printed(script: str, argument: str, **environment: str) -> list[float]:
    return numbers(start(script, argument, **environment))


@needs_interpreter
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernels_equal_plain_routing_in_float64(case: tuple[int, int, bool, str]) -> None:
    (error,) = printed(INTERPRETED, json.dumps(case), TRITON_INTERPRET="1")
    assert error < 1e-6


@needs_triton
@pytest.mark.slow
def test_kernels_compile_for_an_h100_and_fit_its_registers(tmp_path: Path) -> None:
    cache = {"TRITON_CACHE_DIR": str(tmp_path / "cache"), "TRITON_INTERPRET": "0"}
    spills = printed(COMPILED, str(tmp_path / "kernel.ptx"), **cache)
    assert max(spills) <= MOST_SPILLED_BYTES


def test_other_devices_and_types_are_left_to_plain_routing() -> None:
    assert not can_route(torch.zeros(1, 36, 8))
    assert not can_route(torch.zeros(1, 36, 8, device="meta"))


def test_triton_is_not_imported_on_a_cpu() -> None:
    script = (
        "import sys, torch\n"
        "from fastrcaps_search.capsnet.layers import ClassCapsules\n"
        "from fastrcaps_search.definition.choices import RoutingGradient\n"
        "layer = ClassCapsules(1, weight_sharing=True, routing_gradient=RoutingGradient.FULL)\n"
        "layer(torch.zeros(1, 36, 8))\n"
        "print(int('fastrcaps_search.capsnet.cuda.kernels' in sys.modules))\n"
    )
    assert printed(script, "") == [0]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (RuntimeError("Failed to find C compiler"), "Failed to find C compiler"),
        (float("inf"), "got an error of inf"),
        (1e-3, "got an error of 0.001"),
    ],
)
def test_kernels_that_fail_or_are_wrong_are_not_used(
    found: Exception | float,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def error(*_: object, **__: object) -> float:
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(routing, "find_spec", lambda _: object())
    monkeypatch.setattr(routing, "largest_error", error)
    with caplog.at_level(logging.WARNING):
        assert not routing._is_right_on.__wrapped__(torch.device("cpu"))
    assert message in caplog.text
    assert "routing runs on torch's kernels" in caplog.text


def test_kernels_that_are_right_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "find_spec", lambda _: object())
    monkeypatch.setattr(routing, "largest_error", lambda *_, **__: 2e-7)
    assert routing._is_right_on.__wrapped__(torch.device("cpu"))
    monkeypatch.setattr(routing, "find_spec", lambda _: None)
    assert not routing._is_right_on.__wrapped__(torch.device("cpu"))


@pytest.mark.gpu
@needs_triton
@pytest.mark.parametrize("sharing", [False, True])
@pytest.mark.parametrize("gradient", list(RoutingGradient))
def test_kernels_on_a_card_equal_plain_routing(sharing: bool, gradient: RoutingGradient) -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    for types in (8, 32):
        for batch in (1, 2, 3, 5, 16, 17, 128):
            error = largest_error(
                device, batch=batch, types=types, sharing=sharing, gradient=gradient
            )
            assert error < 2e-5, (types, batch)


@pytest.mark.gpu
@needs_triton
def test_a_layer_on_a_card_uses_the_kernels_and_gives_equal_bits_twice() -> None:
    torch.manual_seed(0)
    layer = ClassCapsules(8, weight_sharing=True, routing_gradient=RoutingGradient.FULL).cuda()
    u = squash(torch.randn(20, 288, 8, device="cuda"))
    assert can_route(u)
    gradients = []
    for _ in range(2):
        capsules = layer(u)
        direct = route_capsules(u, layer.weight, layer.bias, gradient=RoutingGradient.FULL)
        assert torch.equal(capsules, direct)
        gradients.append(torch.autograd.grad(capsules.pow(3).sum(), layer.weight)[0])
    assert torch.equal(*gradients)
