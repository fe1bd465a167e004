"""The written-out step against autograd, torch's Adam and finite differences."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu import capsules, convolutions, fft
from fastrcaps_search.capsnet.cpu.convolutions import Convolutions, Im2colConv
from fastrcaps_search.capsnet.cpu.fft import FftConv
from fastrcaps_search.capsnet.cpu.matmul import MatmulBackend, use_backend
from fastrcaps_search.capsnet.cpu.step import BatchProgram, choose_convolutions
from fastrcaps_search.capsnet.cpu.weights import PRIMARY, Buffers, Weights, unpack_taps
from fastrcaps_search.capsnet.network import CapsNet
from fastrcaps_search.definition.choices import Decoder, RoutingGradient
from fastrcaps_search.definition.networks import NETWORKS, Width

SMALL = Width(channels=12, types=2)
NARROW, FULL = (NETWORKS[name].arguments["width"] for name in ("capsnet-narrow", "capsnet"))


FORMS = [Im2colConv, FftConv]


class Kept(Weights):
    """Keeps gradients instead of updating."""

    def __init__(self, network: CapsNet) -> None:
        super().__init__(network)
        self.flat = torch.full_like(self.values, math.nan)

    def updater(self, start: int, gradient: Tensor) -> Callable[[], None]:
        def update() -> None:
            self.flat[start : start + gradient.numel()] = gradient.reshape(-1)

        return update


def network(
    width: Width = SMALL,
    *,
    decoder: Decoder = Decoder.FULL,
    weight_sharing: bool = False,
    routing_gradient: RoutingGradient = RoutingGradient.FULL,
    reconstruction_weight: float = 0.0005,
    active: bool = True,
) -> CapsNet:
    """In float64; if ``active`` with larger weights, so that routing has something to decide."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        built = CapsNet(
            width,
            decoder=decoder,
            weight_sharing=weight_sharing,
            routing_gradient=routing_gradient,
            reconstruction_weight=reconstruction_weight,
        ).double()
        with torch.no_grad():
            if not active:
                return built
            built.class_capsules.weight.mul_(4)
            built.class_capsules.bias.normal_(std=0.1)
            built.convolution.weight.mul_(2)
            built.primary_capsules.convolution.weight.mul_(3)
    return built


def batch(size: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(size)
    images = torch.rand(size, 1, 28, 28, generator=generator, dtype=torch.float64)
    return images, torch.randint(10, (size,), generator=generator)


def gradients(
    built: CapsNet,
    images: Tensor,
    labels: Tensor,
    form: type[Convolutions],
    backend: MatmulBackend = MatmulBackend.MKL,
) -> tuple[dict[str, Tensor], list[float]]:
    """By parameter, in torch's layout, and the sums."""
    weights = Kept(built)
    size = len(labels)
    program = BatchProgram(
        built,
        weights,
        Buffers(weights.values.dtype),
        batch=size,
        backend=backend,
        convolutions=form,
    )
    sums = torch.zeros(4, dtype=torch.float64)
    for _ in range(2):  # the second step finds what the first left in the buffers
        weights.flat.fill_(math.nan)
        sums.zero_()
        program.train(images, labels, sums=sums)
    found = {}
    for name, parameter in built.named_parameters():
        start = weights.start(name)
        flat = weights.flat[start : start + parameter.numel()]
        found[name] = (
            unpack_taps(flat.view(weights[name].shape))
            if name == PRIMARY
            else flat.view(parameter.shape)
        )
    return found, sums.tolist()


def expected(built: CapsNet, images: Tensor, labels: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    losses = built.loss(images, labels)
    names, parameters = zip(*built.named_parameters(), strict=True)
    found = torch.autograd.grad(losses.total, parameters)
    means = torch.stack([losses.total, losses.classification, losses.reconstruction])
    sums = torch.cat([means.detach() * len(labels), losses.correct.double().view(1)])
    return dict(zip(names, found, strict=True)), sums


def worst(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> float:
    return max(float((found[n] - w).norm() / w.norm()) for n, w in wanted.items())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("routing_gradient", list(RoutingGradient))
@pytest.mark.parametrize("weight_sharing", [False, True])
@pytest.mark.parametrize("decoder", list(Decoder))
def test_gradients_and_sums_equal_autograd(
    decoder: Decoder,
    weight_sharing: bool,
    routing_gradient: RoutingGradient,
    form: type[Convolutions],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Seven images in parts of three, three and one, gradients of the taps in four blocks.
    monkeypatch.setattr(capsules, "_PART_BYTES", 3 * 4 * 72 * 160)
    monkeypatch.setattr(fft, "_PART_BYTES", 3 * 4 * 400 * SMALL.channels)
    monkeypatch.setattr(convolutions, "_BLOCK_BYTES", 25 * 4 * SMALL.channels * 16)
    built = network(
        decoder=decoder, weight_sharing=weight_sharing, routing_gradient=routing_gradient
    )
    images, labels = batch(7)
    wanted, sums = expected(built, images, labels)
    got, got_sums = gradients(built, images, labels, form)
    assert worst(got, wanted) < 1e-12
    assert got_sums == pytest.approx(sums.tolist(), rel=1e-12)


@pytest.mark.parametrize("decoder", [Decoder.FULL, Decoder.REDUCED])
@pytest.mark.parametrize("weight", [0.02, 0.0])
def test_another_reconstruction_weight_has_the_gradients_of_autograd(
    weight: float, decoder: Decoder
) -> None:
    built = network(decoder=decoder, reconstruction_weight=weight)
    images, labels = batch(4)
    wanted, sums = expected(built, images, labels)
    got, got_sums = gradients(built, images, labels, Im2colConv)
    for name, gradient in wanted.items():
        assert (got[name] - gradient).norm() <= 1e-12 * gradient.norm(), name
        # A decoder of no weight has a gradient, of exactly 0.
        assert got[name].any() == (weight > 0 or not name.startswith("decoder")), name
    assert got_sums == pytest.approx(sums.tolist(), rel=1e-12)
    assert (got_sums[2] > 0) == (weight > 0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("width", "size"), [(NARROW, 1), (NARROW, 19), (FULL, 1), (FULL, 5)])
def test_the_shipped_networks_have_exact_gradients_in_float32(
    width: Width, size: int, form: type[Convolutions]
) -> None:
    built = network(width, active=False)
    images, labels = batch(size)
    wanted, _ = expected(built, images, labels)
    got, _ = gradients(copy.deepcopy(built).float(), images.float(), labels, form)
    assert worst(got, wanted) < 1e-5


@pytest.mark.parametrize("decoder", [Decoder.FULL, Decoder.NONE])
@pytest.mark.parametrize("weight", [0.0005, 0.02])
@pytest.mark.parametrize("form", FORMS)
def test_gradients_equal_finite_differences(
    form: type[Convolutions], weight: float, decoder: Decoder
) -> None:
    built = network(decoder=decoder, reconstruction_weight=weight)
    images, labels = batch(3)
    got, _ = gradients(built, images, labels, form)
    step = 1e-6
    generator = torch.Generator().manual_seed(0)
    for name, parameter in built.named_parameters():
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        losses = []
        for sign in (1, -1):
            moved = copy.deepcopy(built)
            with torch.no_grad():
                moved.get_parameter(name).add_(direction, alpha=sign * step)
            _, sums = gradients(moved, images, labels, form)
            losses.append(sums[0] / 3)
        slope = (losses[0] - losses[1]) / (2 * step)
        assert slope == pytest.approx(float((got[name] * direction).sum()), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("form", [None, *FORMS])
def test_steps_of_changing_size_train_as_torch_does(form: type[Convolutions] | None) -> None:
    built = network()
    reference = copy.deepcopy(built)
    optimiser = torch.optim.Adam(reference.parameters(), foreach=False)
    weights = Weights(built)
    sums = torch.zeros(4, dtype=torch.float64)
    buffers = Buffers(torch.float64)
    programs: dict[int, BatchProgram] = {}
    for number, size in enumerate((1, 4, 16, 3, 1, 16)):
        rate = 1e-3 * (number + 1)
        images, labels = batch(size)
        optimiser.param_groups[0]["lr"] = rate
        optimiser.zero_grad()
        reference.loss(images, labels).total.backward()
        optimiser.step()
        if size not in programs:
            programs[size] = BatchProgram(
                built,
                weights,
                buffers,
                batch=size,
                backend=MatmulBackend.MKL,
                convolutions=form,
            )
        weights.begin_step(rate)
        programs[size].train(images, labels, sums=sums)
    before = copy.deepcopy(built)
    weights.copy_to_module()
    state = weights.optimiser_state()
    for name, parameter in reference.named_parameters():
        assert not torch.equal(built.get_parameter(name), before.get_parameter(name))
        moved = (built.get_parameter(name) - parameter).norm()
        assert moved < 1e-7 * parameter.norm(), name
        for quantity in ("exp_avg", "exp_avg_sq"):
            wanted = optimiser.state[parameter][quantity]
            got = state[f"{quantity}.{name}"]
            assert (got - wanted).norm() < 1e-7 * wanted.norm(), name
        assert state[f"step.{name}"] == 6


def test_the_gaps_between_parameters_stay_zero() -> None:
    built = network()  # 81 * 12 numbers are no multiple of 16
    weights = Weights(built)
    program = BatchProgram(
        built, weights, Buffers(torch.float64), batch=2, backend=MatmulBackend.MKL
    )
    images, labels = batch(2)
    for _ in range(3):
        weights.begin_step(1e-2)
        program.train(images, labels, sums=torch.zeros(4, dtype=torch.float64))
    for flat in (weights.values, weights.exp_avg, weights.exp_avg_sq):
        held = sum(p.numel() for p in built.parameters())
        assert flat.numel() > held
        assert int((flat != 0).sum()) <= held
        for name, parameter in built.named_parameters():
            start = weights.start(name)
            flat[start : start + parameter.numel()] = 0
        assert not flat.any()


@pytest.mark.parametrize("form", FORMS)
def test_a_program_that_only_classifies_gives_the_networks_capsules(
    form: type[Convolutions],
) -> None:
    built = network(weight_sharing=True)
    images, _ = batch(5)
    weights = Weights(built)
    program = BatchProgram(
        built,
        weights,
        Buffers(torch.float64),
        batch=5,
        backend=MatmulBackend.MKL,
        trains=False,
        convolutions=form,
    )
    program.prepare()
    with torch.no_grad():
        wanted = built.capsules(images)
    assert torch.allclose(program.forward(images), wanted, rtol=1e-12, atol=1e-14)


def test_not_a_number_reaches_the_loss() -> None:
    built = network()
    images, labels = batch(3)
    images[1, 0, 14, 14] = math.nan
    for form in FORMS:
        _, sums = gradients(built, images, labels, form)
        assert math.isnan(sums[0])


def test_the_form_depends_on_batch_and_products_alone() -> None:
    for backend in MatmulBackend:
        algorithms = [choose_convolutions(batch=size, backend=backend) for size in (1, 2, 64, 128)]
        assert algorithms == [
            Im2colConv,
            Im2colConv,
            FftConv,
            FftConv,
        ]


@pytest.mark.parametrize(("decoder", "weight"), [("full", 0.0005), ("full", 0.005), ("none", 0.0)])
@pytest.mark.parametrize("form", FORMS)
def test_bf16_rounds_factors_to_eight_bits_and_sums_in_float32(
    form: type[Convolutions], decoder: str, weight: float
) -> None:
    built = network(NARROW, decoder=Decoder(decoder), reconstruction_weight=weight, active=False)
    images, labels = batch(4)
    wanted, sums = expected(built, images, labels)
    single = copy.deepcopy(built).float()
    got, got_sums = gradients(single, images.float(), labels, form, MatmulBackend.BF16)
    a = torch.randn(64, 64)
    with use_backend(MatmulBackend.BF16):
        rounds = bool(((a @ a) - (a.double() @ a.double()).float()).norm() > 1e-4 * (a @ a).norm())
    # Measured on a processor that rounds: loss 1e-5, gradients 1.6e-2.
    assert got_sums[0] == pytest.approx(float(sums[0]), rel=1e-3)
    assert worst(got, wanted) < 3e-2
    assert (worst(got, wanted) > 1e-4) == rounds
