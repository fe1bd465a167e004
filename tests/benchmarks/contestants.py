"""The contestants of ``training_step``, each in a process of its own that waits for its turn.

A contestant reads one request a line from its input and answers with one line, both JSON. It waits
in a blocking read, so that an idle one takes no time. Each has its own allocator, with the C
library's default settings.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from fastrcaps_search.capsnet.network import build_network
from fastrcaps_search.data.shipped import MNIST
from fastrcaps_search.definition.choices import Decoder, Precision
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.training.device import prepare
from fastrcaps_search.training.kernels import choose_kernel, make_step
from fastrcaps_search.training.policy import training_plan
from fastrcaps_search.training.run import Run
from fastrcaps_search.training.splits import EpochImages, Split, Splits, hits, make_splits
from tests.benchmarks.floors import Best, Floors, Gauge
from tests.benchmarks.plain_capsnet import PlainTraining, Style

RATE = 1e-3
PAUSE_SECONDS = 0.1
"""Before each turn: for this long the threads of the last contestant may still spin."""
ALLOCATOR = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")
THREADING = ("OMP_", "GOMP_", "KMP_", "MKL_", "ONEDNN_", "DNNL_", "ATEN_", "TORCH")


def study(*, size: int, images: int | None = None, precision: str = "fp32") -> StudyDefinition:
    """One epoch of the full network at a fixed rate."""
    return StudyDefinition.from_dict(
        {
            "name": "training-step",
            "data_set": "mnist",
            "epochs": 1,
            "evaluate_on": "test",
            "batch_size": size,
            "boundaries": [1],
            "train_images": images,
            "precision": precision,
            "configuration": [
                {
                    "lr_policy": "fixed",
                    "batch_policy": "constant",
                    "decoder": "full",
                    "weight_sharing": False,
                }
            ],
        }
    )


class Product:
    """The package's step, on images shifted and drawn as in a study."""

    def __init__(self, splits: Splits, precision: Precision) -> None:
        torch.manual_seed(0)
        self._splits, self._precision = splits, precision
        network = build_network("capsnet", decoder=Decoder.FULL, weight_sharing=False)
        self.kernel = choose_kernel(torch.device("cpu"), network="capsnet", precision=precision)
        self._step = make_step(network.train(), kernel=self.kernel)
        self._images = EpochImages(splits.training, seed=0, shifts=True)
        self._batches: dict[int, Iterator[tuple[Tensor, Tensor]]] = {}

    def _endless(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        steps = len(self._splits.training) // size
        for epoch in count(1):
            yield from self._images.epoch(epoch, [size] * steps)

    def train(self, size: int, steps: int) -> float:
        """Seconds of some steps, each with drawing its batch."""
        if size not in self._batches:
            self._step.warm_up(size)
            self._batches[size] = self._endless(size)
        begun = time.perf_counter()
        for images, labels in islice(self._batches[size], steps):
            self._step(images, labels, rate=RATE)
        self._step.take_sums()
        return time.perf_counter() - begun

    def evaluate(self, images: int) -> float:
        """Seconds to evaluate on the first test images."""
        test = self._splits.test
        first = Split(test.images[:images], test.labels[:images])
        begun = time.perf_counter()
        int(hits(self._step, first).sum())
        return time.perf_counter() - begun

    def loop(self, size: int, images: int) -> tuple[int, float]:
        """Steps and seconds of an epoch on the first training images, by the real loop."""
        definition = study(size=size, images=images, precision=self._precision)
        training, test = self._splits.training, self._splits.test
        few = Split(test.images[:100], test.labels[:100])
        chosen = Split(training.images[:images], training.labels[:images])
        run = Run(
            training_plan(definition, definition.configurations[0]),
            seed=0,
            kernel=self.kernel,
            splits=Splits(training=chosen, evaluation=few, test=few),
        )
        run.train()
        return run.epochs[0].steps, run.epochs[0].training_seconds


class Plain:
    """The plain peer."""

    def __init__(self, splits: Splits, style: Style) -> None:
        torch.manual_seed(0)

        def floats(split: Split) -> TensorDataset:
            return TensorDataset(split.images[:, None].float().div_(255.0), split.labels)

        self._training = PlainTraining(floats(splits.training), floats(splits.test), style)

    def train(self, size: int, steps: int) -> float:
        """Seconds of some steps, each with fetching its batch."""
        begun = time.perf_counter()
        self._training.train(size, steps)
        return time.perf_counter() - begun

    def evaluate(self, images: int) -> float:
        """Seconds to evaluate on the first test images."""
        begun = time.perf_counter()
        self._training.evaluate(images)
        return time.perf_counter() - begun


def settings() -> str:
    """Settings of this process that bear on precision and speed."""
    mkldnn = getattr(torch.backends.mkldnn, "matmul", None)
    flushed = float(torch.tensor(1e-39) * 1) == 0.0
    return (
        f"float32 matmul {torch.get_float32_matmul_precision()}, "
        f"mkldnn.matmul.fp32_precision {getattr(mkldnn, 'fp32_precision', 'absent')}, "
        f"denormals {'flushed' if flushed else 'kept'}"
    )


def peak_mib() -> float:
    """Most memory that this process has held at once."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1]) / 1024
    return float("nan")


def waiting_share() -> float:
    """Share of its running time that this process has waited for a core, all threads together."""
    ran = waited = 0
    for file in Path("/proc/self/task").glob("*/schedstat"):
        fields = file.read_text().split()
        ran, waited = ran + int(fields[0]), waited + int(fields[1])
    return waited / (ran + waited) if ran else float("nan")


def _with_untimed(train: Callable[[int, int], float]) -> Callable[[int, int, int], float]:
    """Steps to settle in first, which do not count."""

    def seconds(size: int, steps: int, untimed: int) -> float:
        if untimed:
            train(size, untimed)
        return train(size, steps)

    return seconds


def _verbs(kind: str, threads: int) -> dict[str, Callable[..., Any]]:
    """What the contestant of this kind can be asked."""
    is_product = kind in list(Precision)
    if is_product:
        prepare("cpu", threads=threads)
    else:
        torch.set_num_threads(threads)
    common: dict[str, Callable[..., Any]] = {
        "settings": settings,
        "peak_mib": peak_mib,
        "waiting_share": waiting_share,
    }
    if kind == "floors":
        gauge = Gauge()
        return common | {"measure": lambda: dataclasses.asdict(gauge.measure())}
    images = MNIST.load(folder=Path(os.environ["FASTRCAPS_DATA"]))
    splits = make_splits(study(size=1), images, device=torch.device("cpu"))
    if is_product:
        product = Product(splits, Precision(kind))
        common |= {"train": _with_untimed(product.train), "evaluate": product.evaluate}
        common["settings"] = lambda: f"kernel {product.kernel}, {settings()}"
        return common | {"loop": product.loop}
    plain = Plain(splits, Style(kind))
    return common | {"train": _with_untimed(plain.train), "evaluate": plain.evaluate}


def serve(kind: str, threads: int) -> None:
    """Answer requests until the input ends."""
    verbs = _verbs(kind, threads)
    for line in sys.stdin:
        verb, values = json.loads(line)
        print(json.dumps(verbs[verb](*values)), flush=True)


class Contestant:
    """A contestant's process, seen from outside.

    Args:
        kind: A precision for the product, a style for the plain peer, or ``floors``.
        threads: Threads of torch in it.
    """

    def __init__(self, kind: str, *, threads: int) -> None:
        self.kind = kind
        environment = {k: v for k, v in os.environ.items() if not k.startswith(ALLOCATOR)}
        command = [sys.executable, "-m", __name__, kind, "--threads", str(threads)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait()

    def ask(self, verb: str, *values: float) -> Any:  # noqa: ANN401 - whatever the verb answers
        """Its turn: the answer to one request.

        Raises:
            RuntimeError: The process has ended.
        """
        time.sleep(PAUSE_SECONDS)
        pipes = self._process.stdin, self._process.stdout
        if pipes[0] is None or pipes[1] is None:
            raise RuntimeError(f"contestant {self.kind} must have pipes")
        answer = ""
        with contextlib.suppress(BrokenPipeError):
            pipes[0].write(json.dumps([verb, values]) + "\n")
            pipes[0].flush()
            answer = pipes[1].readline()
        if not answer:
            raise RuntimeError(
                f"contestant {self.kind} ended with exit code {self._process.wait()}; "
                "its message stands above"
            )
        return json.loads(answer)

    def floors(self) -> Floors:
        """A measurement of the floors."""
        answer = self.ask("measure")
        return Floors(**{name: Best(**best) for name, best in answer.items()})


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    serve(arguments.kind, arguments.threads)


if __name__ == "__main__":
    main()
