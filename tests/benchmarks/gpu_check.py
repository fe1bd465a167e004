"""Stages of ``gpu_check.sh``; each prints its figures at once and fails by its exit code."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from pathlib import Path

import torch
from torch import Tensor

from fastrcaps_search.capsnet.network import build_network
from fastrcaps_search.definition.choices import Decoder, Network
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.metrics import EpochMetrics
from fastrcaps_search.training.device import Clock, device_name
from fastrcaps_search.training.evaluate import accuracy
from fastrcaps_search.training.policy import training_plan
from fastrcaps_search.training.run import Hooks, Run
from fastrcaps_search.training.splits import EpochImages
from fastrcaps_search.training.stage import stage
from fastrcaps_search.training.step import EagerStep

TOLERANCE = 2e-3
"""Largest relative difference of a gradient: float32 sums in another order, through routing."""
IMAGES = 60_000


def study(*, epochs: int = 30, images: int | None = None) -> StudyDefinition:
    """The paper's WarmAdaBatch configuration on MNIST."""
    return StudyDefinition.from_dict(
        {
            "name": "gpu-check",
            "epochs": epochs,
            "evaluate_on": "test",
            "train_images": images,
            "configuration": [
                {
                    "lr_policy": "warm_adabatch",
                    "adabatch_exponent": 4,
                    "decoder": "full",
                    "weight_sharing": False,
                }
                if epochs > 3
                else {
                    "lr_policy": "warm_restarts",
                    "batch_policy": "constant",
                    "decoder": "full",
                    "weight_sharing": False,
                }
            ],
        }
    )


def folder() -> Path:
    """Folder with MNIST."""
    return Path(os.environ["FASTRCAPS_DATA"])


def machine(arguments: argparse.Namespace) -> int:
    """Date, card, versions."""
    device = torch.device(arguments.device)
    print(f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, {device_name(device)}")
    print(f"python {platform.python_version()}, torch {torch.__version__}", flush=True)
    if device.type == "cuda":
        memory = torch.cuda.get_device_properties(device).total_memory / 2**30
        print(f"CUDA {torch.version.cuda}, {memory:.0f} GiB")
    return 0


def _gradients(device: str, *, sharing: bool, images: Tensor, labels: Tensor) -> list[Tensor]:
    torch.manual_seed(0)
    network = build_network(Network.CAPSNET, decoder=Decoder.FULL, weight_sharing=sharing)
    network = network.to(device).train()
    network.loss(images.to(device), labels.to(device)).total.backward()
    return [p.grad.double().cpu() for p in network.parameters() if p.grad is not None]


def correctness(arguments: argparse.Namespace) -> int:
    """Gradients of a real batch on the device against the CPU's."""
    splits = stage(study(), device="cpu", threads=os.cpu_count() or 1, folder=folder())
    images, labels = next(splits.test.batches(16))
    worst = 0.0
    for sharing in (False, True):
        pairs = zip(
            _gradients("cpu", sharing=sharing, images=images, labels=labels),
            _gradients(arguments.device, sharing=sharing, images=images, labels=labels),
            strict=True,
        )
        errors = [float((a - b).norm() / a.norm()) for a, b in pairs]
        worst = max(worst, *errors)
        print(f"sharing {sharing}: largest relative error of a gradient {max(errors):.1e}")
    return 0 if worst <= TOLERANCE else 1


def speed(arguments: argparse.Namespace) -> int:
    """Seconds per epoch of 60,000 images at batch 1, 16 and 128, from measured steps."""
    splits = stage(study(), device=arguments.device, threads=os.cpu_count() or 1, folder=folder())
    device = torch.device(arguments.device)
    for size in (1, 16, 128):
        network = build_network(Network.CAPSNET, decoder=Decoder.FULL, weight_sharing=False)
        step = EagerStep(network.to(device).train())
        step.warm_up(size)
        steps = max(min(arguments.steps, IMAGES // size) // (1 if size == 1 else 4), 1)
        batches = EpochImages(splits.training, seed=0, shifts=True).epoch(1, [size] * steps)
        clock = Clock(device)
        clock.start()
        for images, labels in batches:
            step(images, labels, rate=1e-3)
        seconds = clock.stop()
        print(
            f"batch {size}: {1000 * seconds / steps:.3f} ms a step, epoch of {IMAGES} images "
            f"{seconds / steps * IMAGES / size:.2f} s (scaled from {steps} steps, eager)",
            flush=True,
        )
    if device.type == "cuda":
        print(f"peak memory {torch.cuda.max_memory_allocated(device) / 2**20:.0f} MiB")
    return 0


def evaluation(arguments: argparse.Namespace) -> int:
    """Evaluation of the 10,000 test images."""
    splits = stage(study(), device=arguments.device, threads=os.cpu_count() or 1, folder=folder())
    device = torch.device(arguments.device)
    network = build_network(Network.CAPSNET, decoder=Decoder.FULL, weight_sharing=False).to(device)
    clock = Clock(device)
    for attempt in ("first", "second"):
        clock.start()
        reached = accuracy(network, splits.test)
        print(f"evaluation of 10,000, {attempt} time: {clock.stop():.2f} s (untrained {reached})")
    return 0


def trial(arguments: argparse.Namespace) -> int:
    """A whole trial; every epoch prints its line, so that a stopped one says how far it came."""
    definition = study(epochs=arguments.epochs, images=arguments.images)
    splits = stage(
        definition, device=arguments.device, threads=os.cpu_count() or 1, folder=folder()
    )

    def say(metrics: EpochMetrics) -> None:
        print(
            f"epoch {metrics.epoch}: batch {metrics.batch_size}, "
            f"{metrics.training_seconds:.2f} s, test accuracy {100 * metrics.accuracy:.2f} %",
            flush=True,
        )

    plan = training_plan(definition, definition.configurations[0])
    result = Run(plan, seed=0, splits=splits, hooks=Hooks(on_epoch=say)).train()
    print(
        f"trial: {100 * result.accuracy:.2f} % in epoch {result.best_epoch}, "
        f"{result.training_seconds:.1f} s up to it"
    )
    return 0


STAGES = {step.__name__: step for step in (machine, correctness, speed, evaluation, trial)}


def main() -> int:
    """Run one stage."""
    parser = argparse.ArgumentParser()
    parser.add_argument("stage", choices=list(STAGES))
    parser.add_argument("--device", required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--images", type=int)
    arguments = parser.parse_args()
    return STAGES[arguments.stage](arguments)


if __name__ == "__main__":
    sys.exit(main())
