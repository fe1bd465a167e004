"""What this machine trains on, and how fast: measured in a process of its own.

Started as ``python -m fastrcaps_search.training.probe``; reads one JSON object from its standard
input and prints one. The supervisor itself never imports torch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from fastrcaps_search.capsnet.network import build_network
from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.training.device import device_name, devices
from fastrcaps_search.training.kernels import choose_kernel
from fastrcaps_search.training.throughput import StepOf, benchmark, step_seconds
from fastrcaps_search.training.trainer import make_step


def main() -> int:
    """Print devices and seconds per step; 1 where not even one worker could train."""
    answer = probe(json.load(sys.stdin))
    if answer is None:
        return 1
    json.dump(answer, sys.stdout)
    return 0


def probe(question: dict[str, Any]) -> dict[str, Any] | None:
    """Devices, the name of the first, and what was measured on it.

    Args:
        question: ``devices``, as asked for; ``definition``, ``batch_sizes``; ``known``, the names
            of devices on which nothing is to be measured; ``layouts``, pairs of workers and
            threads to be compared on a CPU: one alone is measured on a card.

    Returns:
        ``devices``, ``device_name`` and ``measured``: workers, threads and seconds of a step by
        batch size, for each layout that could train; ``None`` where none could.
    """
    found = found_devices(question["devices"])
    if not found:
        return {"devices": []}
    name = device_name(torch.device(found[0]))
    if name in question["known"]:
        return {"devices": found, "device_name": name, "measured": []}
    make = partial(_step_of, StudyDefinition.from_dict(question["definition"]), found[0])
    sizes, layouts = question["batch_sizes"], question["layouts"]
    if found[0] == "cpu":
        measured = benchmark(layouts, sizes, make=make)
    else:
        seconds = step_seconds(make, sizes, device=found[0], threads=layouts[0][1])
        measured = [(*layouts[0], dict(zip(sizes, seconds, strict=True)))]
    if not measured:
        return None
    return {"devices": found, "device_name": name, "measured": measured}


def found_devices(wanted: str) -> list[str]:
    """Devices of this machine that ``wanted`` (auto, cpu, cuda, or cards) allows.

    Cards are named as in ``cuda:0,cuda:2``; none is found where one of them is missing.
    """
    *cards, _ = devices()
    if wanted == "cpu" or (wanted == "auto" and not cards):
        return ["cpu"]
    if wanted in ("auto", "cuda"):
        return cards
    named = list(dict.fromkeys(wanted.split(",")))
    return named if set(named) <= set(cards) else []


def _step_of(definition: StudyDefinition, device: str) -> StepOf:
    """Gives warmed-up steps of the study's largest network on random images."""
    settings = definition.architecture.settings
    network = build_network(
        definition.network,
        decoder=Decoder.FULL if "decoder" in settings else None,
        weight_sharing=False if "weight_sharing" in settings else None,
        routing_gradient=definition.routing_gradient,
    ).to(device)
    kernel = choose_kernel(
        torch.device(device), network=definition.network, precision=definition.precision
    )
    step = make_step(network, kernel=kernel)

    def of(size: int) -> Callable[[], object]:
        images = torch.rand(size, 1, 28, 28, device=device)
        labels = torch.randint(10, (size,), device=device)
        step.warm_up(size)
        return lambda: step(images, labels, rate=0.0)

    # The first update of all makes the optimiser's memory, whatever the batch.
    of(1)()
    return of


if __name__ == "__main__":
    sys.exit(main())
