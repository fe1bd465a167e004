"""Speed of the training step and of evaluation on this CPU, beside a plain peer and the floors.

    FASTRCAPS_DATA=data python -m tests.benchmarks.training_step [--quick] [--loop] [--out FILE]

The product (in each precision asked for) and a plain PyTorch CapsNet (``plain_capsnet``) take
turns on real MNIST, round by round, each in its own process with default allocator settings; only
one of them works at a time. Steps include drawing the batch. The floors (``floors``) are measured
in every round, too: neighbours on a shared machine change what it can do by half within minutes.

Figures are medians over the rounds, with quartiles; a sample is the mean of a turn. A gain and the
multiple of the floor are medians over the rounds of that round's ratio, not ratios of medians.

With ``--loop`` the product's step takes turns with the real training loop (``Run``) instead.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch

from fastrcaps_search.data.shipped import MNIST
from fastrcaps_search.errors import DataError
from fastrcaps_search.training.device import device_name
from tests.benchmarks.contestants import THREADING, Contestant
from tests.benchmarks.floors import Best, Floors
from tests.benchmarks.plain_capsnet import Style

STEPS = {1: 20, 16: 6, 128: 2}
"""Steps of one turn."""
UNTIMED = {1: 4, 16: 1, 128: 0}
"""Steps before them, which find the caches as the last contestant left them."""
EVALUATION_IMAGES = 1000
LOOP_IMAGES = {1: 1000, 16: 1600, 128: 2560}
LOOP_TOLERANCE = 0.05

GAINS_WANTED = {
    "fp32": {"batch 1": 2.3, "batch 16": 2.2, "batch 128": 5.0, "evaluation": 5.0},
    "bf16": {"batch 16": 3.0, "batch 128": 5.5, "evaluation": 7.0},
}
FLOORS_WANTED = {"fp32": {"batch 1": 2.2, "batch 16": 1.4, "batch 128": 1.8}}


@dataclass(frozen=True, slots=True)
class Measure:
    """What is compared: a step of one size in ms, or evaluation in images/s.

    Attributes:
        size: Batch size; ``None`` for evaluation.
    """

    size: int | None

    @property
    def name(self) -> str:
        """Name in tables."""
        return "evaluation" if self.size is None else f"batch {self.size}"

    @property
    def unit(self) -> str:
        """Unit of the samples."""
        return "images/s" if self.size is None else "ms"

    def sample(self, contestant: Contestant) -> float:
        """One turn of a contestant."""
        if self.size is None:
            return EVALUATION_IMAGES / float(contestant.ask("evaluate", EVALUATION_IMAGES))
        steps = STEPS[self.size]
        return 1000 * float(contestant.ask("train", self.size, steps, UNTIMED[self.size])) / steps

    def floor(self, floors: Floors, precision: str) -> tuple[float, str]:
        """The best that the machine allows, in the unit of the samples, and what binds."""
        if self.size is None:
            return floors.evaluation_rate(precision), "compute"
        seconds, binds = floors.step_seconds(self.size, precision)
        return 1000 * seconds, binds

    def times_better(self, better: float, worse: float) -> float:
        """How many times better one sample is than another."""
        return better / worse if self.size is None else worse / better


Samples = dict[str, dict[str, list[float]]]
"""By measure and contestant."""


def take_turns(
    measure: Measure, contestants: Sequence[Contestant], gauge: Contestant, rounds: int
) -> tuple[dict[str, list[float]], list[Floors]]:
    """Samples of each contestant and floors, interleaved; the first round is dropped."""
    samples: dict[str, list[float]] = {contestant.kind: [] for contestant in contestants}
    floors: list[Floors] = []
    for turn in range(rounds + 1):
        for contestant in contestants:
            value = measure.sample(contestant)
            if turn:
                samples[contestant.kind].append(value)
        if turn:
            floors.append(gauge.floors())
    return samples, floors


def number(value: float) -> str:
    """Three digits or so."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def spread(values: Sequence[float]) -> str:
    """Median and quartiles."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{number(median)} ({number(low)}–{number(high)})"


def verdict(value: float, wanted: float | None, *, at_least: bool) -> str:
    """A ratio beside its target."""
    if wanted is None:
        return f"{value:.2f}x"
    met = value >= wanted if at_least else value <= wanted
    side = "at least" if at_least else "at most"
    return f"{value:.2f}x, {side} {wanted:g}x: {'met' if met else 'missed'}"


def row(
    measure: Measure, samples: dict[str, list[float]], precision: str, floors: list[Floors]
) -> list[str]:
    """Cells of one measure in one precision."""
    product = samples[precision]
    plain = next(values for kind, values in samples.items() if kind in list(Style))
    gains = [measure.times_better(a, b) for a, b in zip(product, plain, strict=True)]
    least = [measure.floor(each, precision) for each in floors]
    over = [measure.times_better(floor, p) for (floor, _), p in zip(least, product, strict=True)]
    gain_wanted = GAINS_WANTED[precision].get(measure.name)
    floor_wanted = FLOORS_WANTED.get(precision, {}).get(measure.name)
    return [
        f"{measure.name}, {measure.unit}",
        spread(plain),
        precision,
        spread(product),
        verdict(statistics.median(gains), gain_wanted, at_least=True),
        f"{spread([floor for floor, _ in least])}, {statistics.mode(b for _, b in least)}",
        verdict(statistics.median(over), floor_wanted, at_least=False),
    ]


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table whose columns are aligned as text, too."""
    widths = [max(len(line[column]) for line in [head, *rows]) for column in range(len(head))]
    ruled = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |"
        for line in ruled
    )


def machine(threads: int) -> str:
    """Machine, versions, date and load."""
    known = {k: v for k, v in os.environ.items() if k.startswith(THREADING)}
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{device_name('cpu')}, {os.cpu_count()} cores, {threads} threads, "
        f"torch {torch.__version__}, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, "
        f"load average {load}, variables {known or 'none'}"
    )


def floors_text(floors: list[Floors]) -> str:
    """The rates over the rounds, and how the best were reached."""

    def text(kind: str, best: list[Best], unit: str) -> str:
        how = max(best, key=lambda each: each.rate).how
        return f"{kind} {spread([each.rate / 1e9 for each in best])} {unit} (best: {how})"

    return ", ".join(
        [
            text("fp32", [each.fp32 for each in floors], "GFLOP/s"),
            text("bf16", [each.bf16 for each in floors], "GFLOP/s"),
            text("memory", [each.memory for each in floors], "GB/s"),
        ]
    )


def compare(arguments: argparse.Namespace, say: Callable[[str], None]) -> Samples:
    """The comparison with the plain peer and the floors."""
    kinds = [str(arguments.plain), *arguments.precision]
    measures = [Measure(size) for size in [*arguments.batch, None]]
    samples: Samples = {}
    with ExitStack() as stack:
        contestants = [
            stack.enter_context(Contestant(kind, threads=arguments.threads)) for kind in kinds
        ]
        gauge = stack.enter_context(Contestant("floors", threads=arguments.threads))
        for contestant in contestants:
            say(f"{contestant.kind}: {contestant.ask('settings')}")
        floors: dict[str, list[Floors]] = {}
        for measure in measures:
            print(f"{measure.name} ...", file=sys.stderr, flush=True)
            samples[measure.name], floors[measure.name] = take_turns(
                measure, contestants, gauge, arguments.rounds
            )
        peaks = [f"{c.kind} {c.ask('peak_mib'):.0f} MiB" for c in contestants]
        waits = [f"{c.kind} {100 * c.ask('waiting_share'):.0f} %" for c in contestants]
    head = ["", f"plain ({arguments.plain})", "precision", "product", "gain", "floor", "over it"]
    rows = [
        row(measure, samples[measure.name], precision, floors[measure.name])
        for measure in measures
        for precision in arguments.precision
    ]
    for name, seen in floors.items():
        say(f"{name}: {floors_text(seen)}")
    say(f"Peak memory: {', '.join(peaks)}")
    say(f"Waited for a core, because of other work: {', '.join(waits)}")
    say(
        f"{arguments.rounds} rounds: medians (quartiles); gain and multiple of the floor: "
        "median of the rounds' ratios"
    )
    say("\n" + table(head, rows))
    return samples


def loop_row(
    contestant: Contestant, size: int, images: int, rounds: int
) -> tuple[list[str], list[float]]:
    """Cells for one size, and the real loop's samples."""
    contestant.ask("train", size, STEPS[size], 0)
    alone, looped = [], []
    for _ in range(rounds):
        steps = images // size
        alone.append(1000 * float(contestant.ask("train", size, steps, 0)) / steps)
        steps, seconds = contestant.ask("loop", size, images)
        looped.append(1000 * seconds / steps)
    ratio = statistics.median(b / a for a, b in zip(alone, looped, strict=True))
    met = ratio - 1 <= LOOP_TOLERANCE
    cells = [
        f"batch {size}, ms",
        contestant.kind,
        spread(alone),
        spread(looped),
        f"{100 * (ratio - 1):+.1f} %, at most +{100 * LOOP_TOLERANCE:g} %: "
        f"{'met' if met else 'missed'}",
    ]
    return cells, looped


def compare_loop(arguments: argparse.Namespace, say: Callable[[str], None]) -> Samples:
    """The step beside the real training loop."""
    samples: Samples = {}
    rows = []
    for precision in arguments.precision:
        with Contestant(precision, threads=arguments.threads) as contestant:
            say(f"{precision}: {contestant.ask('settings')}")
            for size in arguments.batch:
                print(f"loop, batch {size}, {precision} ...", file=sys.stderr, flush=True)
                images = LOOP_IMAGES[size] // (4 if arguments.quick else 1)
                cells, looped = loop_row(contestant, size, images, max(arguments.rounds // 2, 2))
                rows.append(cells)
                samples.setdefault(f"loop, batch {size}", {})[precision] = looped
    say("The training loop's ms a step: training seconds of an epoch over its steps.")
    say("\n" + table(["", "precision", "step alone", "in the loop", "difference"], rows))
    return samples


def has_data() -> bool:
    """Whether MNIST is where the variable says; says why not."""
    folder = os.environ.get("FASTRCAPS_DATA")
    if not folder:
        print("set FASTRCAPS_DATA to a folder with MNIST", file=sys.stderr)
        return False
    try:
        found = MNIST.find(Path(folder))
    except DataError as error:
        print(error, file=sys.stderr)
        return False
    if not found:
        print(f"FASTRCAPS_DATA must name a folder with MNIST, got {folder}", file=sys.stderr)
    return bool(found)


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=6, help="at least 2")
    parser.add_argument("--batch", type=int, nargs="+", choices=list(STEPS), default=list(STEPS))
    precisions = list(GAINS_WANTED)
    parser.add_argument("--precision", nargs="+", choices=precisions, default=precisions)
    parser.add_argument("--plain", type=Style, choices=list(Style), default=Style.BROADCAST)
    parser.add_argument("--quick", action="store_true", help="two rounds")
    parser.add_argument("--loop", action="store_true", help="the step beside the real loop")
    parser.add_argument("--out", type=Path, help="the report as text, and all samples as JSON")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds = 2
    if arguments.rounds < 2:
        parser.error("--rounds must be at least 2")
    return arguments


def main() -> int:
    """Measure and report."""
    arguments = parsed()
    if not has_data():
        return 2
    lines: list[str] = []

    def say(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    say(machine(arguments.threads))
    begun = time.monotonic()
    samples = (compare_loop if arguments.loop else compare)(arguments, say)
    load = os.getloadavg()[0]
    say(f"\n{time.monotonic() - begun:.0f} s; load average at the end {load:.1f}")
    if arguments.out is not None:
        arguments.out.write_text("\n".join([*lines, "", json.dumps(samples), ""]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
