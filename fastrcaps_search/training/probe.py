"""What this machine trains on, and how fast: measured in a process of its own.

Started as ``python -m fastrcaps_search.training.probe``; reads one JSON object from its standard
input and prints one. The supervisor itself never imports torch.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from statistics import median
from typing import Any

import torch

from fastrcaps_search.capsnet.network import build_network
from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.training.contest import Measured, StepOf, contest
from fastrcaps_search.training.device import Clock, device_name, devices, prepare
from fastrcaps_search.training.kernels import choose_kernel
from fastrcaps_search.training.trainer import make_step

BUDGET_SECONDS = 0.6
"""Time for the steps of one batch size, after a first step that is not counted."""


def main() -> int:
    """Print devices and seconds per step."""
    parser = argparse.ArgumentParser(prog="python -m fastrcaps_search.training.probe")
    parser.add_argument("--device", required=True)
    parser.add_argument("--threads", required=True, type=int)
    arguments = parser.parse_args()
    json.dump(
        look(arguments.device, threads=arguments.threads, asked=json.load(sys.stdin)), sys.stdout
    )
    return 0


def look(wanted: str, *, threads: int, asked: dict[str, Any]) -> dict[str, Any]:
    """Devices, the name of the first, and what was measured on it.

    Args:
        wanted: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        threads: Threads of this process, where it measures alone.
        asked: ``definition``, ``batch_sizes``, ``largest_batch``; ``known``, the names of
            devices on which nothing is to be measured; ``crews``, pairs of workers and threads to
            be compared on a CPU, where there are any.
    """
    found = found_devices(wanted)
    if not found:
        return {"devices": []}
    name = device_name(torch.device(found[0]))
    measured: list[Measured] = []
    if name not in asked["known"]:
        make = partial(_step_of, StudyDefinition.from_dict(asked["definition"]), found[0])
        sizes = asked["batch_sizes"]
        if found[0] == "cpu" and asked["crews"]:
            measured = contest(asked["crews"], sizes, largest=asked["largest_batch"], make=make)
        else:
            device = prepare(found[0], threads=threads)
            step_of = make()
            seconds = {size: _alone(step_of(size), device) for size in sizes}
            measured = [Measured(1, threads, seconds)]
    return {"devices": found, "device_name": name, "measured": [asdict(one) for one in measured]}


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


def _alone(step: Callable[[], object], device: torch.device) -> float:
    """Median seconds of a step with the device to itself."""
    clock = Clock(device)
    spent: list[float] = []
    end = time.monotonic() + BUDGET_SECONDS
    while not spent or time.monotonic() < end:
        clock.start()
        step()
        spent.append(clock.stop())
    return median(spent)


if __name__ == "__main__":
    sys.exit(main())
