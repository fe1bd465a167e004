"""Epochs on a card: many whole steps recorded in one CUDA graph, which the host only replays."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

import torch
from torch import Tensor

from fastrcaps_search.capsnet.trainable import Losses, TrainableNetwork
from fastrcaps_search.definition.choices import Precision
from fastrcaps_search.training.device import Clock
from fastrcaps_search.training.splits import EpochImages
from fastrcaps_search.training.step import AutogradNetwork, rounding, use_precision

logger = logging.getLogger(__name__)

MOST_STEPS = 50
"""Steps of one recording, so that starting a replay counts for little."""
REPLAY_SECONDS = 0.1
"""About the longest replay: the host hears a request to stop between two of them."""
IN_FLIGHT = 2
"""Replays that wait or run on the card: one would let it idle, more would outrun the host."""
WARM_UP_STEPS = 3


class DeviceStep(AutogradNetwork):
    """A training step that reads nothing from the host, in buffers whose addresses never change.

    Its batch, its rate and its place in the epoch are taken on the device, so that many steps can
    be recorded once and replayed.

    Args:
        network: The network, on its device.
        images: Draws the batches, on the same device.
        precision: Arithmetic of the products; see ``use_precision``.
    """

    def __init__(
        self, network: TrainableNetwork, images: EpochImages, *, precision: Precision
    ) -> None:
        super().__init__(network)
        device = self.device
        self._images = images
        self._precision = precision
        self._rate = torch.zeros((), device=device)
        self._order, self._corners = images.draw(epoch=1)
        self._rates = torch.zeros(len(self._order), device=device)
        self._first_sample = torch.zeros(1, dtype=torch.int64, device=device)
        self._number = torch.zeros(1, dtype=torch.int64, device=device)
        self._places = torch.arange(len(self._order), device=device)

    def __len__(self) -> int:
        """Images of an epoch."""
        return len(self._order)

    def begin(self, epoch: int, rates: list[float], *, steps: int = 0, images: int = 0) -> None:
        """Draw the order of ``epoch`` (from 1) and go to its first step that is not done.

        Args:
            epoch: Which.
            rates: Learning rate of each of its steps, at most one per image.
            steps: Steps of it that are done already.
            images: Images of these.
        """
        order, corners = self._images.draw(epoch)
        self._order.copy_(order)
        self._corners.copy_(corners)
        self._rates[: len(rates)] = torch.tensor(rates, device=self.device)
        self._first_sample.fill_(images)
        self._number.fill_(steps)

    def rewind(self) -> None:
        """Go to the first step of the epoch."""
        self._first_sample.zero_()
        self._number.zero_()

    def __call__(self, size: int) -> None:
        """The next update of the epoch, with ``size`` images."""
        places = self._first_sample + self._places[:size]
        images, labels = self._images.batch(self._order[places], self._corners[places])
        self._rate.copy_(self._rates[self._number].squeeze(0))
        self._update(images, labels, rate=self._rate)
        self._first_sample.add_(size)
        self._number.add_(1)

    def _losses(self, images: Tensor, labels: Tensor) -> Losses:
        with rounding(self.network, self._precision):
            return super()._losses(images, labels)

    def changing(self) -> list[Tensor]:
        """Everything that a step changes."""
        adam = [tensor for tensors in self._adam.values() for tensor in tensors]
        counters = [self._first_sample, self._number, self._sums, self._rate]
        return [*self._parameters.values(), *adam, *counters]


class Direct:
    """Records nothing: a replay is one step after the other, each started from Python."""

    def warm_up(self, step: DeviceStep, size: int) -> None:
        """Run a step of ``size`` images, so that everything is compiled and chosen."""
        step.rewind()
        step(size)

    def record(self, step: DeviceStep, size: int, count: int) -> Callable[[], None]:
        """A replay of the next ``count`` steps of ``size`` images.

        Raises:
            RuntimeError: It cannot be recorded.
        """

        def replay() -> None:
            for _ in range(count):
                step(size)

        return replay


class CudaGraphs(Direct):
    """Records CUDA graphs on a stream of their own, those of one batch size in the same memory.

    Args:
        device: The current card.
    """

    def __init__(self, device: torch.device) -> None:
        # The same stream for warming up and recording, so that libraries have their workspaces.
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    def warm_up(self, step: DeviceStep, size: int) -> None:
        """Run a step a few times on the recording stream; recordings of this size follow."""
        torch.cuda.synchronize(step.device)
        # A new pool: torch refuses one whose graphs have all been forgotten.
        self._pool = torch.cuda.graph_pool_handle()
        with torch.cuda.stream(self._stream):
            for _ in range(WARM_UP_STEPS):
                super().warm_up(step, size)
        torch.cuda.synchronize(step.device)

    def record(self, step: DeviceStep, size: int, count: int) -> Callable[[], None]:
        """A CUDA graph of the steps."""
        graph = torch.cuda.CUDAGraph()
        # The outer context puts the current stream back if the recording fails.
        with (
            torch.cuda.stream(self._stream),
            torch.cuda.graph(graph, pool=self._pool, stream=self._stream),
        ):
            for _ in range(count):
                step(size)
        replay: Callable[[], None] = graph.replay
        return replay


class GraphTrainer:
    """Replays recorded steps.

    Batches are those of ``EpochImages`` for the same seed and epoch, and checkpoints those of any
    other trainer. What cannot be recorded is trained one step at a time, with a warning.

    Args:
        network: The network, on its device.
        images: Draws the batches, on the same device.
        precision: Arithmetic of the products; see ``use_precision``.
        recorder: Records steps; ``None`` for CUDA graphs on a card, and nothing on a CPU.

    Attributes:
        trained: The network with its optimiser.
        records: Whether steps are recorded; False on a CPU, and once that has failed.
    """

    def __init__(
        self,
        network: TrainableNetwork,
        images: EpochImages,
        *,
        precision: Precision,
        recorder: Direct | None = None,
    ) -> None:
        on_card = images.device.type == "cuda"
        self._precision = precision
        if precision is not Precision.FP32:
            # Channels as neighbours in memory, as the tensor units like them. The types of torch
            # know this argument only beside a dtype or a device.
            network.to(images.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.trained = DeviceStep(network, images, precision=precision)
        self._clock = Clock(images.device)
        self._recorder = recorder or (CudaGraphs(images.device) if on_card else Direct())
        self.records = recorder is not None or on_card
        self._replays: dict[int, dict[int, Callable[[], None]]] = {}
        self._use_precision()

    def warm_up(self, sizes: Iterable[int]) -> None:
        """Record the steps of these batch sizes, and forget those of all others."""
        wanted = sorted(set(sizes), reverse=True)
        self._use_precision()
        self._replays = {size: self._replays[size] for size in wanted if size in self._replays}
        for size in wanted:
            if size not in self._replays:
                # An epoch has one size, and a last batch that is shorter.
                self._replays[size] = self._recorded(
                    size, most=MOST_STEPS if size == wanted[0] else 1
                )

    def epoch(
        self, epoch: int, sizes: list[int], rates: list[float], *, first: int = 0
    ) -> Iterator[int]:
        """As ``StepTrainer.epoch``; yields after every replay.

        What is read of the network then is as of all the steps that were yielded: it is read on
        the stream on which they run.
        """
        self.trained.begin(epoch, rates, steps=first, images=sum(sizes[:first]))
        in_flight: deque[torch.cuda.Event] = deque()
        for size, same in groupby(sizes[first:]):
            for count, replay in self._plan(size, len(list(same))):
                replay()
                self._wait(in_flight)
                yield size * count

    def _use_precision(self) -> None:
        if self.trained.device.type == "cuda":
            network = self.trained.network
            use_precision(network, self._precision, plain_routing=network.routes_plainly())

    def _plan(self, size: int, steps: int) -> Iterator[tuple[int, Callable[[], None]]]:
        """Replays that add up to ``steps``, the long ones first."""
        if size not in self._replays:
            self._replays[size] = self._recorded(size, most=1)
        for count, replay in sorted(self._replays[size].items(), reverse=True):
            for _ in range(steps // count):
                yield count, replay
            steps %= count

    def _recorded(self, size: int, *, most: int) -> dict[int, Callable[[], None]]:
        """Replays by their number of steps, of which one is 1. Weights and counts stay."""
        step = self.trained
        before = [tensor.detach().clone() for tensor in step.changing()]
        self._recorder.warm_up(step, size)
        try:
            replays = {1: self._recorder.record(step, size, 1)}
            count = self._steps_per_replay(replays[1], size, most=most)
            if count > 1:
                replays[count] = self._recorder.record(step, size, count)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            logger.warning(
                "steps of batch %d must be recordable in a CUDA graph, got: %s; training goes on "
                "slower, one step at a time",
                size,
                error,
            )
            self._recorder, self.records = Direct(), False
            self._replays.clear()
            replays = {1: self._recorder.record(step, size, 1)}
        with torch.no_grad():
            for tensor, value in zip(step.changing(), before, strict=True):
                tensor.copy_(value)
        return replays

    def _steps_per_replay(self, replay: Callable[[], None], size: int, *, most: int) -> int:
        """Steps of a recording that lasts about ``REPLAY_SECONDS``."""
        most = min(most, len(self.trained) // size)
        if most <= 1:
            return 1
        seconds = []
        for _ in range(2):
            self.trained.rewind()
            self._clock.start()
            replay()
            seconds.append(self._clock.stop())
        return max(1, min(most, int(REPLAY_SECONDS / max(min(seconds), 1e-9))))

    def _wait(self, in_flight: deque[torch.cuda.Event]) -> None:
        """Wait until at most ``IN_FLIGHT`` replays are not yet done."""
        if self.trained.device.type != "cuda":
            return
        event = torch.cuda.Event(blocking=True)
        event.record()
        in_flight.append(event)
        if len(in_flight) > IN_FLIGHT:
            in_flight.popleft().synchronize()
