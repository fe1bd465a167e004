"""Recorded steps against steps started from Python: same images, same weights, same states."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fastrcaps_search.capsnet.network import build_network
from fastrcaps_search.capsnet.trainable import TrainableNetwork
from fastrcaps_search.definition.choices import Decoder, Precision
from fastrcaps_search.definition.networks import NETWORKS
from fastrcaps_search.training import graph as graph_module
from fastrcaps_search.training.graph import DeviceStep, Direct, GraphTrainer
from fastrcaps_search.training.kernels import GRAPH, Trainer, make_trainer
from fastrcaps_search.training.splits import EpochImages, Split, Splits
from fastrcaps_search.training.step import EagerStep, StepTrainer

SIZES = [5] * 7 + [3]
RATES = [1e-3 / (1 + step) for step in range(8)]
CPU = torch.device("cpu")


class Counted(Direct):
    """Says what was recorded, and how often each recording was replayed."""

    def __init__(self) -> None:
        self.recorded: list[tuple[int, int]] = []
        self.replayed: list[tuple[int, int]] = []

    def record(self, step: DeviceStep, size: int, count: int) -> Callable[[], None]:
        replay = super().record(step, size, count)
        self.recorded.append((size, count))

        def counted() -> None:
            self.replayed.append((size, count))
            replay()

        return counted


class Refusing(Direct):
    """Fails, as a capture that the card refuses."""

    def record(self, step: DeviceStep, size: int, count: int) -> Callable[[], None]:
        raise RuntimeError("operation not permitted when stream is capturing")


@pytest.fixture
def one_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """No clock decides how many steps a recording has: three."""
    monkeypatch.setattr(graph_module, "MOST_STEPS", 3)
    monkeypatch.setattr(graph_module, "REPLAY_SECONDS", 1e9)


def few(splits: Splits, device: torch.device = CPU) -> Split:
    split = splits.training
    return Split(split.images[:38].to(device), split.labels[:38].to(device))


def images(splits: Splits, device: torch.device = CPU) -> EpochImages:
    return EpochImages(few(splits, device), seed=7, shifts=True)


def step_trainer(splits: Splits, network: str, device: torch.device = CPU) -> StepTrainer:
    return StepTrainer(EagerStep(built(network, device)), images(splits, device))


def graph_trainer(
    splits: Splits,
    network: str,
    *,
    recorder: Direct | None = None,
    decoder: Decoder = Decoder.REDUCED,
    weight: float | None = None,
) -> GraphTrainer:
    return GraphTrainer(
        built(network, CPU, decoder=decoder, weight=weight),
        images(splits),
        precision=Precision.FP32,
        recorder=recorder,
    )


def built(
    network: str,
    device: torch.device,
    *,
    decoder: Decoder = Decoder.REDUCED,
    weight: float | None = None,
) -> TrainableNetwork:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        capsules = NETWORKS[network].has_capsules
        return (
            build_network(
                network,
                decoder=decoder if capsules else None,
                weight_sharing=True if capsules else None,
                reconstruction_weight=weight,
            )
            .to(device)
            .train()
        )


def trained(trainer: Trainer, epochs: range = range(1, 3)) -> list[int]:
    yielded = []
    for epoch in epochs:
        trainer.warm_up(set(SIZES))
        yielded += list(trainer.epoch(epoch, SIZES, RATES))
    trainer.trained.copy_to_module()
    return yielded


def weights(trainer: Trainer) -> dict[str, Tensor]:
    return {name: value.cpu() for name, value in trainer.trained.network.state_dict().items()}


def assert_close(
    got: dict[str, Tensor], expected: dict[str, Tensor], *, tolerance: float = 1e-6
) -> None:
    assert set(got) == set(expected)
    for name, value in expected.items():
        assert got[name].dtype is value.dtype
        assert got[name].shape == value.shape
        error = (got[name] - value).norm() / value.norm()
        assert error <= tolerance, f"{name}: {error}"


@pytest.mark.parametrize(
    ("decoder", "weight"), [(Decoder.NONE, None), (Decoder.FULL, 0.0), (Decoder.FULL, 0.01)]
)
@pytest.mark.usefixtures("one_thread", "one_second")
def test_recorded_steps_know_decoder_and_weight(
    mini_splits: Splits, decoder: Decoder, weight: float | None
) -> None:
    narrow = "capsnet-narrow"
    eager = EagerStep(built(narrow, CPU, decoder=decoder, weight=weight))
    expected = StepTrainer(eager, images(mini_splits))
    got = graph_trainer(mini_splits, narrow, recorder=Counted(), decoder=decoder, weight=weight)
    before = {name: value.clone() for name, value in weights(got).items()}
    trained(expected, range(1, 2))
    trained(got, range(1, 2))
    assert_close(weights(got), weights(expected))
    loss, margin, reconstruction, _ = got.trained.take_sums()
    assert (reconstruction > 0) == bool(weight)
    assert loss == pytest.approx(margin + reconstruction)
    for name, value in weights(got).items():
        assert torch.equal(value, before[name]) == (weight == 0 and name.startswith("decoder")), (
            name
        )


@pytest.mark.parametrize("network", ["lenet5", "capsnet-narrow"])
@pytest.mark.usefixtures("one_thread", "one_second")
def test_recorded_steps_equal_steps_from_python(mini_splits: Splits, network: str) -> None:
    expected = step_trainer(mini_splits, network)
    got = graph_trainer(mini_splits, network, recorder=Counted())
    trained(expected)
    trained(got)
    assert_close(weights(got), weights(expected))
    # Squares of small gradients: their errors count twice.
    assert_close(got.trained.optimiser_state(), expected.trained.optimiser_state(), tolerance=1e-5)
    sums = got.trained.take_sums()
    assert sums == pytest.approx(expected.trained.take_sums(), rel=1e-5)
    assert 0 < sums[3] <= 76
    assert got.trained.take_sums() == [0.0] * 4


@pytest.mark.usefixtures("one_second")
def test_an_epoch_is_long_replays_then_short_ones_then_the_short_batch(
    mini_splits: Splits,
) -> None:
    recorder = Counted()
    trainer = graph_trainer(mini_splits, "lenet5", recorder=recorder)
    trainer.warm_up({5, 3})
    assert recorder.recorded == [(5, 1), (5, 3), (3, 1)]
    recorder.replayed.clear()
    assert list(trainer.epoch(1, SIZES, RATES)) == [15, 15, 5, 3]
    assert recorder.replayed == [(5, 3), (5, 3), (5, 1), (3, 1)]
    # The same sizes are not recorded again, and others are forgotten.
    trainer.warm_up({5, 3})
    assert len(recorder.recorded) == 3
    trainer.warm_up({2})
    trainer.warm_up({5, 3})
    assert recorder.recorded[3:] == [(2, 1), (2, 3), (5, 1), (5, 3), (3, 1)]


@pytest.mark.usefixtures("one_thread", "one_second")
@pytest.mark.parametrize("first", [1, 3, 7, 8])
def test_an_epoch_goes_on_in_its_middle(mini_splits: Splits, first: int) -> None:
    whole = graph_trainer(mini_splits, "lenet5", recorder=Counted())
    whole.warm_up(set(SIZES))
    list(whole.epoch(1, SIZES, RATES))
    begun, recorder = graph_trainer(mini_splits, "lenet5"), Counted()
    for _, done in zip(range(first), begun.epoch(1, SIZES, RATES), strict=False):
        assert done in SIZES
    rest = graph_trainer(mini_splits, "lenet5", recorder=recorder)
    rest.trained.load(weights(begun), begun.trained.optimiser_state())
    rest.trained.load_sums(begun.trained.sums())
    # Recording in the middle changes neither its sums nor its place.
    rest.warm_up({5})
    recorder.replayed.clear()
    assert sum(rest.epoch(1, SIZES, RATES, first=first)) == sum(SIZES[first:])
    assert sum(count for _, count in recorder.replayed if count == 3) == max(7 - first, 0) // 3 * 3
    assert all(torch.equal(v, weights(whole)[name]) for name, v in weights(rest).items())
    states = [each.trained.optimiser_state() for each in (rest, whole)]
    assert all(torch.equal(v, states[1][name]) for name, v in states[0].items())
    assert rest.trained.take_sums() == whole.trained.take_sums()


def test_a_recording_is_as_long_as_its_time_allows(
    mini_splits: Splits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_module, "REPLAY_SECONDS", 0.0)
    recorder = Counted()
    graph_trainer(mini_splits, "lenet5", recorder=recorder).warm_up({1})
    assert recorder.recorded == [(1, 1)]
    monkeypatch.setattr(graph_module, "REPLAY_SECONDS", 1e9)
    graph_trainer(mini_splits, "lenet5", recorder=recorder).warm_up({1})
    assert recorder.recorded[1:] == [(1, 1), (1, 38)]  # of 38 images, no more steps


def test_warming_up_changes_nothing_even_in_the_middle_of_an_epoch(mini_splits: Splits) -> None:
    trainer = graph_trainer(mini_splits, "lenet5")
    before = {name: value.clone() for name, value in weights(trainer).items()}
    trainer.warm_up({5, 3})
    assert all(torch.equal(value, before[name]) for name, value in weights(trainer).items())
    assert all(not value.any() for value in trainer.trained.optimiser_state().values())
    assert trainer.trained.take_sums() == [0.0] * 4
    # A size that nobody announced is recorded when it comes.
    other = graph_trainer(mini_splits, "lenet5")
    for each in (trainer, other):
        list(each.epoch(1, SIZES, RATES))
    assert all(
        torch.equal(value, weights(other)[name]) for name, value in weights(trainer).items()
    )


def test_what_cannot_be_recorded_is_trained_step_by_step(
    mini_splits: Splits, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = graph_trainer(mini_splits, "lenet5", recorder=Refusing())
    recorded = [trainer.records]
    with caplog.at_level(logging.WARNING):
        trained(trainer)
    assert [*recorded, trainer.records] == [True, False]
    assert len(caplog.records) == 1
    assert "operation not permitted when stream is capturing" in caplog.text
    expected = step_trainer(mini_splits, "lenet5")
    trained(expected)
    assert_close(weights(trainer), weights(expected))


def test_full_memory_is_no_reason_to_train_step_by_step(mini_splits: Splits) -> None:
    class Full(Direct):
        def record(self, step: DeviceStep, size: int, count: int) -> Callable[[], None]:
            raise torch.OutOfMemoryError("CUDA out of memory")

    trainer = graph_trainer(mini_splits, "lenet5", recorder=Full())
    with pytest.raises(torch.OutOfMemoryError):
        trainer.warm_up({5})


def test_either_trainer_goes_on_from_the_state_of_the_other(mini_splits: Splits) -> None:
    whole = step_trainer(mini_splits, "lenet5")
    trained(whole)
    for first, second in (
        (
            step_trainer(mini_splits, "lenet5"),
            graph_trainer(mini_splits, "lenet5"),
        ),
        (
            graph_trainer(mini_splits, "lenet5"),
            step_trainer(mini_splits, "lenet5"),
        ),
    ):
        trained(first, range(1, 2))
        # Loaded after recording, too: the buffers stay those that the recordings know.
        second.warm_up(set(SIZES))
        second.trained.load(weights(first), first.trained.optimiser_state())
        trained(second, range(2, 3))
        assert_close(weights(second), weights(whole))
        found, wanted = (each.trained.optimiser_state() for each in (second, whole))
        assert_close(found, wanted, tolerance=1e-5)


def test_channels_last_changes_no_value(mini_splits: Splits) -> None:
    plain = graph_trainer(mini_splits, "lenet5")
    turned = GraphTrainer(
        built("lenet5", CPU),
        images(mini_splits),
        precision=Precision.TF32,
    )
    convolution = dict(turned.trained.network.named_parameters())["convolution2.weight"]
    assert convolution.is_contiguous(memory_format=torch.channels_last)
    for trainer in (plain, turned):
        trained(trainer)
    assert_close(weights(turned), weights(plain), tolerance=1e-5)
    assert all(value.is_contiguous() for value in turned.trained.optimiser_state().values())


def test_the_generator_of_the_process_is_left_alone(mini_splits: Splits) -> None:
    before = torch.get_rng_state()
    trained(graph_trainer(mini_splits, "lenet5"))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.gpu
@pytest.mark.parametrize("network", ["lenet5", "capsnet-narrow", "capsnet"])
def test_graphs_equal_steps_from_python_on_a_card(mini_splits: Splits, network: str) -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    expected = step_trainer(mini_splits, network, device)
    got = make_trainer(
        built(network, device),
        few(mini_splits, device),
        seed=7,
        shifts=True,
        kernel=f"{GRAPH}-fp32",
    )
    assert isinstance(got, GraphTrainer)
    before = torch.cuda.get_rng_state()
    trained(expected, range(1, 2))
    trained(got, range(1, 2))
    assert got.records, "the capture failed: see the log"
    assert_close(weights(got), weights(expected), tolerance=1e-4)
    assert got.trained.take_sums() == pytest.approx(expected.trained.take_sums(), rel=1e-3)
    assert torch.equal(torch.cuda.get_rng_state(), before)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", list(Precision))
def test_a_card_trains_in_every_precision(mini_splits: Splits, precision: Precision) -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    trainer = make_trainer(
        built("capsnet-narrow", device),
        few(mini_splits, device),
        seed=7,
        shifts=False,
        kernel=f"{GRAPH}-{precision}",
    )
    losses = []
    for epoch in range(1, 21):
        trainer.warm_up(set(SIZES))
        list(trainer.epoch(epoch, SIZES, [1e-3] * 8))
        losses.append(trainer.trained.take_sums()[0])
    assert losses[-1] < losses[0] / 4
    assert all(p.dtype is torch.float32 for p in trainer.trained.network.parameters())
