"""Stages of ``gpu_check.sh``; each prints its figures at once and fails by its exit code."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cuda.routing import can_route, largest_error, route_capsules
from fastrcaps_search.capsnet.layers import ClassCapsules
from fastrcaps_search.capsnet.network import build_network
from fastrcaps_search.capsnet.routing import route, squash
from fastrcaps_search.capsnet.trainable import TrainableNetwork, TrainedNetwork
from fastrcaps_search.definition.choices import Decoder, Precision, RoutingGradient
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.metrics import EpochMetrics
from fastrcaps_search.training.device import Clock, device_name, prepare
from fastrcaps_search.training.graph import Direct, GraphTrainer
from fastrcaps_search.training.kernels import choose_kernel
from fastrcaps_search.training.policy import training_plan
from fastrcaps_search.training.run import Hooks, Run
from fastrcaps_search.training.splits import EpochImages, Split, Splits, hits, stage
from fastrcaps_search.training.step import use_precision

IMAGES = 60_000
THREADS = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
SIZES = (128, 16, 1)
FULL = RoutingGradient.FULL
FLOORS = {1: "4.0 to 6.6 s", 16: "0.41 to 0.54 s", 128: "0.09 to 0.19 s"}
"""Seconds per epoch that an H100 cannot beat in bf16: calculated from 3.0 TB/s and 800 TFLOP/s."""
GRADIENT_TOLERANCES = {Precision.FP32: 2e-3, Precision.TF32: 2e-2, Precision.BF16: 1e-1}
"""Largest relative difference of a gradient: sums in another order, and what is rounded."""
ROUTING_TOLERANCE = 2e-5
GRAPH_TOLERANCE = 1e-3
"""Of weights after some steps: Adam divides by square roots of gradients that are nearly zero."""
EAGER_STEPS = 50
PROFILED_KERNELS = 18


def study(
    *, epochs: int = 30, images: int | None = None, precision: str = "fp32"
) -> StudyDefinition:
    """The paper's WarmAdaBatch configuration on MNIST; a cheaper policy for a few epochs."""
    adaptive = {"lr_policy": "warm_adabatch", "adabatch_exponent": 4}
    constant = {"lr_policy": "warm_restarts", "batch_policy": "constant"}
    chosen = adaptive if epochs > 3 else constant
    return StudyDefinition.from_dict(
        {
            "name": "gpu-check",
            "epochs": epochs,
            "evaluate_on": "test",
            "train_images": images,
            "precision": precision,
            "configuration": [{**chosen, "decoder": "full", "weight_sharing": False}],
        }
    )


def staged(arguments: argparse.Namespace, *, images: int | None = None) -> Splits:
    """The splits on the device; folder and threads as set outside."""
    return stage(
        study(images=images),
        device=arguments.device,
        threads=THREADS,
        folder=Path(os.environ["FASTRCAPS_DATA"]),
    )


def built(network: str, *, sharing: bool, device: torch.device) -> TrainableNetwork:
    """The same network every time."""
    torch.manual_seed(0)
    made = build_network(network, decoder=Decoder.FULL, weight_sharing=sharing)
    return made.to(device).train()


def say(text: str) -> None:
    """Print at once."""
    print(text, flush=True)


def machine(arguments: argparse.Namespace) -> int:
    """Date, card, versions."""
    device = torch.device(arguments.device)
    say(f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, {device_name(device)}")
    say(
        f"python {platform.python_version()}, torch {torch.__version__}, CUDA {torch.version.cuda}"
    )
    if device.type == "cuda":
        memory = torch.cuda.get_device_properties(device).total_memory / 2**30
        say(f"{memory:.0f} GiB, cuDNN {torch.backends.cudnn.version()}")
    return 0


def _routing_errors(device: torch.device) -> bool:
    """Whether the kernels are right for both widths, with and without sharing."""
    right = True
    for types, sharing, gradient in product((8, 32), (False, True), RoutingGradient):
        errors = {
            batch: largest_error(
                device, batch=batch, types=types, sharing=sharing, gradient=gradient
            )
            for batch in (1, 2, 5, 17)
        }
        right &= max(errors.values()) <= ROUTING_TOLERANCE
        shown = ", ".join(f"batch {batch} {error:.0e}" for batch, error in errors.items())
        say(f"kernels, {types} types, sharing {sharing}, {gradient}: {shown}")
    return right


def _milliseconds(call: Callable[[], object], device: torch.device, *, calls: int = 10) -> float:
    """Milliseconds of a call within a CUDA graph of some calls."""
    stream = torch.cuda.Stream(device)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize(device)
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
        torch.cuda.synchronize(device)
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(calls):
                call()
    clock = Clock(device)
    graph.replay()
    clock.start()
    for _ in range(5):
        graph.replay()
    return 1000 * clock.stop() / (5 * calls)


def routing(arguments: argparse.Namespace) -> int:
    """Triton's routing kernels: errors against float64, then time against torch's routing."""
    device = prepare(arguments.device, threads=THREADS)
    if device.type != "cuda":
        say("routing kernels need a card: not checked")
        return 0
    begun = time.perf_counter()
    probe = torch.zeros(1, 36, 8, device=device)
    say(f"kernels usable: {can_route(probe)}, {time.perf_counter() - begun:.1f} s to compile")
    right = _routing_errors(device)
    for size, sharing in product((1, 16, 128), (False, True)):
        layer = ClassCapsules(32, weight_sharing=sharing, routing_gradient=FULL)
        layer.to(device)
        u = squash(torch.randn(size, 32 * 36, 8, device=device)).requires_grad_()
        inputs = u, layer.weight, layer.bias

        def plain(
            u: Tensor = u, layer: ClassCapsules = layer, inputs: tuple[Tensor, ...] = inputs
        ) -> None:
            output = route(layer.votes(u), layer.bias, gradient=FULL)
            torch.autograd.grad(output.sum(), inputs)

        def fast(inputs: tuple[Tensor, Tensor, Tensor] = inputs) -> None:
            torch.autograd.grad(route_capsules(*inputs, gradient=FULL).sum(), inputs)

        a, b = _milliseconds(plain, device), _milliseconds(fast, device)
        say(f"routing, batch {size}, sharing {sharing}: torch {a:.3f} ms, kernels {b:.3f} ms")
    return 0 if right else 1


def _gradients(
    network: TrainableNetwork, images: Tensor, labels: Tensor, precision: Precision
) -> list[Tensor]:
    device = next(network.parameters()).device
    use_precision(network, precision)
    network.loss(images.to(device), labels.to(device)).total.backward()
    return [p.grad.double().cpu() for p in network.parameters() if p.grad is not None]


def _graph_error(arguments: argparse.Namespace, splits: Splits, network: str) -> float:
    """Largest relative difference of a weight: recorded steps against steps from Python."""
    device = splits.training.labels.device
    few = Split(splits.training.images[:200], splits.training.labels[:200])
    trainers = [
        GraphTrainer(
            built(network, sharing=False, device=device),
            EpochImages(few, seed=0, shifts=True),
            precision=Precision.FP32,
            recorder=recorder,
        )
        for recorder in (None, Direct())
    ]
    size = arguments.batch
    steps = 200 // size if device.type == "cuda" else 2
    sizes = [size] * steps + ([200 % size] if 200 % size and device.type == "cuda" else [])
    for trainer in trainers:
        trainer.warm_up(set(sizes))
        list(trainer.epoch(1, sizes, [1e-3] * len(sizes)))
    if device.type == "cuda" and not trainers[0].records:
        say("the steps could not be recorded: see the warning above")
        return float("inf")
    weights = [list(trainer.trained.network.state_dict().values()) for trainer in trainers]
    pairs = zip(*weights, strict=True)
    return max(float((a - b).norm() / b.norm()) for a, b in pairs)


def correctness(arguments: argparse.Namespace) -> int:
    """Gradients of a real batch against the CPU's in every precision; graphs against eager."""
    splits = staged(arguments)
    device = splits.training.labels.device
    images, labels = (x.cpu() for x in next(splits.test.batches(arguments.batch)))
    right = True
    for network in ("capsnet-narrow", "capsnet"):
        error = _graph_error(arguments, splits, network)
        right &= error <= GRAPH_TOLERANCE
        say(f"{network}: weights of recorded and eager steps differ by {error:.1e} at most")
    for network, sharing in product(("capsnet-narrow", "capsnet"), (False, True)):
        cpu = built(network, sharing=sharing, device=torch.device("cpu"))
        expected = _gradients(cpu, images, labels, Precision.FP32)
        for precision, tolerance in GRADIENT_TOLERANCES.items():
            other = built(network, sharing=sharing, device=device)
            got = _gradients(other, images, labels, precision)
            worst = max(
                float((a - b).norm() / a.norm()) for a, b in zip(expected, got, strict=True)
            )
            right &= worst <= tolerance
            say(
                f"{network}, sharing {sharing}, {precision}: largest relative error of a gradient "
                f"{worst:.1e}, {tolerance:.0e} allowed"
            )
    return 0 if right else 1


def _epoch_line(
    trainer: GraphTrainer, size: int, steps: int, *, name: str, device: torch.device
) -> str:
    """What an epoch costs: the second of two runs of these steps."""
    begun = time.perf_counter()
    trainer.warm_up([size])
    prepared = time.perf_counter() - begun
    clock = Clock(device)
    for epoch in (1, 2):
        clock.start()
        for _ in trainer.epoch(epoch, [size] * steps, [1e-3] * steps):
            pass
        seconds = clock.stop()
    loss = trainer.trained.take_sums()[0] / (2 * size * steps)
    floor = FLOORS.get(size, "none")
    how = "measured whole" if steps == IMAGES // size else f"scaled from {steps} steps"
    return (
        f"batch {size}, {name}: {1000 * seconds / steps:.3f} ms a step, epoch of {IMAGES} images "
        f"{seconds / steps * IMAGES / size:.2f} s ({how}; "
        f"H100 floor, calculated: {floor}; {prepared:.1f} s to record; mean loss {loss:.4f})"
    )


def speed(arguments: argparse.Namespace) -> int:
    """Seconds per epoch of 60,000 images; evaluation of 10,000; peak memory."""
    splits = staged(arguments)
    device = splits.training.labels.device
    chosen = Precision(arguments.precision)
    # What matters most comes first: the rest is lost if time runs out.
    sizes = SIZES if device.type == "cuda" else (arguments.batch, 1)
    wanted: list[tuple[int, Precision, Direct | None]]
    wanted = [(size, chosen, None) for size in sizes]
    wanted += [(size, chosen, Direct()) for size in sizes]
    others = [precision for precision in Precision if precision is not chosen]
    wanted += [(size, precision, None) for precision in others for size in sizes[:2]]
    for place, (size, precision, recorder) in enumerate(wanted):
        trainer = GraphTrainer(
            built("capsnet", sharing=False, device=device),
            EpochImages(splits.training, seed=0, shifts=True),
            precision=precision,
            recorder=recorder,
        )
        # Whole epochs of the larger batches; 2,000 steps of batch 1 are enough to scale.
        most = arguments.steps * (1 if size == 1 else 2)
        steps = min(most if recorder is None else EAGER_STEPS, most, IMAGES // size)
        trainer.warm_up([size])  # says whether recording works
        kind = "eager" if recorder else "graph" if trainer.records else "not recorded"
        say(_epoch_line(trainer, size, steps, name=f"{kind} {precision}", device=device))
        if place == len(sizes) - 1:
            _evaluation(trainer.trained, splits, device, most=arguments.images)
            _memory(device)
    return 0


def _evaluation(
    trained: TrainedNetwork, splits: Splits, device: torch.device, *, most: int | None
) -> None:
    test = _first(splits.test, most)
    clock = Clock(device)
    for attempt in ("first", "second"):
        clock.start()
        reached = int(hits(trained, test).sum()) / len(test)
        say(f"evaluation of {len(test)}, {attempt} time: {clock.stop():.2f} s ({reached:.4f})")


def _first(split: Split, most: int | None) -> Split:
    return Split(split.images[:most], split.labels[:most])


def _memory(device: torch.device) -> None:
    if device.type == "cuda":
        allocated = torch.cuda.max_memory_allocated(device) / 2**20
        reserved = torch.cuda.max_memory_reserved(device) / 2**20
        say(f"peak memory {allocated:.0f} MiB, reserved {reserved:.0f} MiB")


def profile(arguments: argparse.Namespace) -> int:
    """The kernels of one step, longest first."""
    splits = staged(arguments)
    device = splits.training.labels.device
    on_card = device.type == "cuda"
    activities = [torch.profiler.ProfilerActivity.CPU]
    activities += [torch.profiler.ProfilerActivity.CUDA] if on_card else []
    for size in (128, 1) if on_card else (1,):
        trainer = GraphTrainer(
            built("capsnet", sharing=False, device=device),
            EpochImages(splits.training, seed=0, shifts=True),
            precision=Precision(arguments.precision),
            recorder=Direct(),
        )
        trainer.warm_up([size])
        list(trainer.epoch(1, [size] * 3, [1e-3] * 3))
        Clock(device).start()
        with torch.profiler.profile(activities=activities) as profiled:
            list(trainer.epoch(2, [size], [1e-3]))
            Clock(device).stop()
        # An operator's own device time is counted with its kernels': those are what is listed.
        kernels = [
            (event.self_device_time_total if on_card else event.self_cpu_time_total, event)
            for event in profiled.key_averages()
            if not on_card or event.device_type.name == "CUDA"
        ]
        kernels.sort(key=lambda pair: -pair[0])
        launches = sum(event.count for _, event in kernels)
        total = sum(spent for spent, _ in kernels)
        say(f"one step of batch {size}: {launches} kernels, {total:.0f} us in them")
        for spent, event in kernels[:PROFILED_KERNELS]:
            say(f"{spent:9.1f} us {event.count:4d} x {event.key[:100]}")
    return 0


def trial(arguments: argparse.Namespace) -> int:
    """A whole trial; every epoch prints its line, so that a stopped one says how far it came."""
    definition = study(
        epochs=arguments.epochs, images=arguments.images, precision=arguments.precision
    )
    splits = stage(
        definition,
        device=arguments.device,
        threads=THREADS,
        folder=Path(os.environ["FASTRCAPS_DATA"]),
    )
    spent = 0.0

    def tell(metrics: EpochMetrics) -> None:
        nonlocal spent
        spent += metrics.training_seconds
        say(
            f"epoch {metrics.epoch}: batch {metrics.batch_size}, {metrics.training_seconds:.2f} s "
            f"({spent:.1f} s in all), evaluation {metrics.evaluation_seconds:.2f} s, "
            f"loss {metrics.loss:.4f}, test accuracy {100 * metrics.accuracy:.2f} %"
        )

    begun = time.perf_counter()
    if arguments.images is not None:
        splits = replace(splits, evaluation=_first(splits.test, arguments.images))
    plan = training_plan(definition, definition.configurations[0])
    device = splits.training.labels.device
    kernel = choose_kernel(device, network=plan.network, precision=plan.precision)
    run = Run(plan, seed=0, splits=splits, kernel=kernel, hooks=Hooks(on_epoch=tell))
    result = run.train()
    say(
        f"trial in {arguments.precision}: {100 * result.accuracy:.2f} % in epoch "
        f"{result.best_epoch}, {result.training_seconds:.1f} s of training up to it, "
        f"{spent:.1f} s in {arguments.epochs} epochs, "
        f"{time.perf_counter() - begun:.1f} s with everything"
    )
    _memory(splits.training.labels.device)
    return 0


STAGES = {f.__name__: f for f in (machine, routing, correctness, speed, profile, trial)}


def main() -> int:
    """Run one stage."""
    parser = argparse.ArgumentParser()
    parser.add_argument("stage", choices=list(STAGES))
    parser.add_argument("--device", required=True)
    parser.add_argument("--precision", choices=list(Precision), default="bf16")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--images", type=int)
    arguments = parser.parse_args()
    return STAGES[arguments.stage](arguments)


if __name__ == "__main__":
    sys.exit(main())
