"""What this machine trains on, and how fast: measured in a process of its own.

Started as ``python -m fastrcaps_search.training.probe`` with the study's definition as JSON on its
standard input; prints one JSON object. The supervisor itself never imports torch.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from statistics import median
from typing import Any

import torch

from fastrcaps_search.capsnet.network import build_network
from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.training.device import Clock, device_name, devices, prepare
from fastrcaps_search.training.step import TrainingStep
from fastrcaps_search.training.trainer import make_step

BUDGET_SECONDS = 0.6
"""Time for the steps of one batch size, after a first step that is not counted."""


def main() -> int:
    """Print devices and seconds per step."""
    parser = argparse.ArgumentParser(prog="python -m fastrcaps_search.training.probe")
    parser.add_argument("--device", required=True)
    parser.add_argument("--threads", required=True, type=int)
    parser.add_argument("--batch-sizes", required=True, type=int, nargs="+")
    arguments = parser.parse_args()
    found = found_devices(arguments.device)
    if not found:
        json.dump({"devices": []}, sys.stdout)
        return 0
    definition = StudyDefinition.from_dict(json.load(sys.stdin))
    device = prepare(found[0], threads=arguments.threads)
    facts: dict[str, Any] = {
        "devices": found,
        "device_name": device_name(device),
        "step_seconds": step_seconds(definition, device, arguments.batch_sizes),
    }
    json.dump(facts, sys.stdout)
    return 0


def found_devices(wanted: str) -> list[str]:
    """Devices of this machine that ``wanted`` (auto, cpu, cuda, cuda:N) allows."""
    *cards, _ = devices()
    if wanted == "cpu" or (wanted == "auto" and not cards):
        return ["cpu"]
    if wanted in ("auto", "cuda"):
        return cards
    return [wanted] if wanted in cards else []


def step_seconds(
    definition: StudyDefinition, device: torch.device, sizes: list[int]
) -> dict[str, float]:
    """Median seconds of a step of the study's largest network, by batch size."""
    has_capsules = definition.network.has_capsules
    network = build_network(
        definition.network,
        decoder=Decoder.FULL if has_capsules else None,
        weight_sharing=False if has_capsules else None,
    ).to(device)
    step = make_step(network, precision=definition.precision)
    return {str(size): _one_size(step, size, device) for size in sizes}


def _one_size(step: TrainingStep, size: int, device: torch.device) -> float:
    images = torch.rand(size, 1, 28, 28, device=device)
    labels = torch.randint(10, (size,), device=device)
    step(images, labels, rate=0.0)
    clock = Clock(device)
    spent: list[float] = []
    end = time.monotonic() + BUDGET_SECONDS
    while not spent or time.monotonic() < end:
        clock.start()
        step(images, labels, rate=0.0)
        spent.append(clock.stop())
    return median(spent)


if __name__ == "__main__":
    sys.exit(main())
