"""Sizes, initial weights, names, losses and modes of the networks."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fastrcaps_search.capsnet.lenet import LeNet5
from fastrcaps_search.capsnet.network import CapsNet, build_network, learned_parameters
from fastrcaps_search.definition.choices import Decoder, RoutingGradient
from fastrcaps_search.definition.networks import NETWORKS

# Narrow, by hand: first convolution 64 * 81 + 64 = 5,248; primary 64 * 64 * 81 + 64 = 331,840;
# class capsules 8 * 36 * 8 * 160 = 368,640 (shared 8 * 8 * 160 = 10,240) and bias 160;
# decoder 160 * 512 + 512 (reduced 16 * 512 + 512 = 8,704) = 82,432, 512 * 1024 + 1024 = 525,312,
# 1024 * 784 + 784 = 803,600, together 1,411,344 (reduced 1,337,616).
#   5,248 + 331,840 + 368,640 + 160 + 1,411,344 = 2,117,232
#   reduced: - 73,728 = 2,043,504;  shared: - 358,400 = 1,758,832;  both: 1,685,104
PARAMETERS = [
    ("capsnet", Decoder.FULL, False, 8_215_728),
    ("capsnet", Decoder.REDUCED, False, 8_142_000),
    ("capsnet", Decoder.FULL, True, 6_782_128),
    ("capsnet", Decoder.REDUCED, True, 6_708_400),
    ("capsnet-narrow", Decoder.FULL, False, 2_117_232),
    ("capsnet-narrow", Decoder.REDUCED, False, 2_043_504),
    ("capsnet-narrow", Decoder.FULL, True, 1_758_832),
    ("capsnet-narrow", Decoder.REDUCED, True, 1_685_104),
    # Without a decoder: convolution 256 * 81 + 256 = 20,992; primary capsules
    # 256 * 256 * 81 + 256 = 5,308,672; class capsules 1,152 * 8 * 160 + 160 = 1,474,720, or shared
    # 32 * 8 * 160 + 160 = 41,120. The decoder has 160 * 512 + 512 = 82,432, 512 * 1,024 + 1,024 =
    # 525,312 and 1,024 * 784 + 784 = 803,600: 8,215,728 - 1,411,344 = 6,804,384.
    ("capsnet", Decoder.NONE, False, 6_804_384),
    ("capsnet", Decoder.NONE, True, 5_370_784),
    # 64 * 82 = 5,248; 64 * 64 * 81 + 64 = 331,840; 288 * 8 * 160 + 160 = 368,800
    ("capsnet-narrow", Decoder.NONE, False, 705_888),
    # LeNet5: 6 * 25 + 6 = 156; 16 * 150 + 16 = 2,416; 400 * 120 + 120 = 48,120;
    # 120 * 84 + 84 = 10,164; 84 * 10 + 10 = 850
    ("lenet5", None, None, 61_706),
]


def narrow(decoder: Decoder = Decoder.FULL, *, weight_sharing: bool = False) -> CapsNet:
    torch.manual_seed(0)
    built = build_network("capsnet-narrow", decoder=decoder, weight_sharing=weight_sharing)
    if not isinstance(built, CapsNet):
        pytest.fail(f"expected a CapsNet, got {type(built).__name__}")
    return built


def images_and_labels(batch: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(batch, 1, 28, 28, generator=generator)
    return images, torch.randint(0, 10, (batch,), generator=generator)


@pytest.mark.parametrize(("network", "decoder", "weight_sharing", "parameters"), PARAMETERS)
def test_learned_parameters(
    network: str, decoder: Decoder | None, weight_sharing: bool | None, parameters: int
) -> None:
    built = build_network(network, decoder=decoder, weight_sharing=weight_sharing)
    assert learned_parameters(built) == parameters


def test_frozen_parameters_are_not_learned() -> None:
    network = LeNet5()
    network.linear3.requires_grad_(requires_grad=False)
    assert learned_parameters(network) == 61_706 - 850


def test_coupling_coefficients_complete_the_papers_count() -> None:
    full = build_network("capsnet", decoder=Decoder.FULL, weight_sharing=False)
    small = build_network("capsnet", decoder=Decoder.REDUCED, weight_sharing=True)
    assert NETWORKS["capsnet"].coupling_coefficients == 11_520
    assert learned_parameters(full) + NETWORKS["capsnet"].coupling_coefficients == 8_227_248
    assert learned_parameters(small) + NETWORKS["capsnet"].coupling_coefficients == 6_719_920
    assert NETWORKS["capsnet-narrow"].coupling_coefficients == 2_880
    assert NETWORKS["lenet5"].coupling_coefficients == 0


@pytest.mark.parametrize(
    ("network", "decoder", "weight_sharing", "message"),
    [
        ("lenet5", Decoder.FULL, None, "lenet5 must have values of no parameter, got decoder"),
        ("lenet5", None, False, "weight_sharing=False"),
        ("capsnet", None, True, "capsnet must have values of decoder, weight_sharing"),
        (
            "capsnet-narrow",
            Decoder.FULL,
            None,
            "capsnet-narrow must have values of decoder, weight_sharing",
        ),
    ],
)
def test_parameters_that_do_not_fit_the_network_are_refused(
    network: str, decoder: Decoder | None, weight_sharing: bool | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        build_network(network, decoder=decoder, weight_sharing=weight_sharing)


DECODER_SHAPES = {
    "decoder.second.weight": (1024, 512),
    "decoder.second.bias": (1024,),
    "decoder.pixels.weight": (784, 1024),
    "decoder.pixels.bias": (784,),
}


@pytest.mark.parametrize(
    ("network", "decoder", "weight_sharing", "varying"),
    [
        ("capsnet", Decoder.FULL, False, (256, 256, 1152, 160)),
        ("capsnet", Decoder.REDUCED, True, (256, 256, 32, 16)),
        ("capsnet-narrow", Decoder.REDUCED, False, (64, 64, 288, 16)),
        ("capsnet-narrow", Decoder.FULL, True, (64, 64, 8, 160)),
    ],
)
def test_names_and_shapes_of_saved_weights(
    network: str,
    decoder: Decoder,
    weight_sharing: bool,
    varying: tuple[int, int, int, int],
) -> None:
    channels, primary, matrices, inputs = varying
    built = build_network(network, decoder=decoder, weight_sharing=weight_sharing)
    state = built.state_dict()
    assert {name: tuple(value.shape) for name, value in state.items()} == {
        "convolution.weight": (channels, 1, 9, 9),
        "convolution.bias": (channels,),
        "primary_capsules.convolution.weight": (primary, channels, 9, 9),
        "primary_capsules.convolution.bias": (primary,),
        "class_capsules.weight": (matrices, 8, 160),
        "class_capsules.bias": (10, 16),
        "decoder.first.weight": (512, inputs),
        "decoder.first.bias": (512,),
        **DECODER_SHAPES,
    }
    assert all(value.is_contiguous() for value in state.values())


def test_names_and_shapes_of_saved_lenet_weights() -> None:
    assert {name: tuple(value.shape) for name, value in LeNet5().state_dict().items()} == {
        "convolution1.weight": (6, 1, 5, 5),
        "convolution1.bias": (6,),
        "convolution2.weight": (16, 6, 5, 5),
        "convolution2.bias": (16,),
        "linear1.weight": (120, 400),
        "linear1.bias": (120,),
        "linear2.weight": (84, 120),
        "linear2.bias": (84,),
        "linear3.weight": (10, 84),
        "linear3.bias": (10,),
    }


def test_initial_weights() -> None:
    network = narrow()
    weight = network.class_capsules.weight
    # 368,640 draws: the standard error of the deviation is 0.1 / sqrt(2 * 368,640) = 0.00012.
    assert weight.std().item() == pytest.approx(0.1, abs=0.0006)
    assert weight.mean().item() == pytest.approx(0.0, abs=0.0008)
    assert weight.abs().max().item() > 0.4  # normal, not uniform: that would end at 0.17
    assert torch.count_nonzero(network.class_capsules.bias) == 0
    # Torch's own are uniform within 1 / sqrt(fan in), whose deviation is bound / sqrt(3); these
    # are eight times as large, as the eight types are coupled with 1/8.
    bound = 8 / math.sqrt(64 * 81)
    convolution = network.primary_capsules.convolution.weight
    assert convolution.abs().max().item() == pytest.approx(bound, rel=0.001)
    assert convolution.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.01)


def test_initial_weights_follow_the_global_seed() -> None:
    first, second = narrow().state_dict(), narrow().state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    torch.manual_seed(1)
    other = build_network("capsnet-narrow", decoder=Decoder.FULL, weight_sharing=False)
    assert not torch.equal(
        other.state_dict()["class_capsules.weight"], first["class_capsules.weight"]
    )


@pytest.mark.parametrize("decoder", [Decoder.FULL, Decoder.REDUCED])
@pytest.mark.parametrize("weight_sharing", [False, True])
def test_shapes_and_loss_of_a_capsnet(decoder: Decoder, weight_sharing: bool) -> None:
    network = narrow(decoder, weight_sharing=weight_sharing)
    images, labels = images_and_labels(3)
    output = network(images, labels)
    assert output.lengths.shape == (3, 10)
    assert output.capsules.shape == (3, 10, 16)
    assert output.reconstructions.shape == (3, 784)
    torch.testing.assert_close(output.lengths, output.capsules.norm(dim=2))
    losses = network.loss(images, labels)
    target = F.one_hot(labels, 10)
    margin = target * (0.9 - output.lengths).clamp(min=0) ** 2
    margin = margin + 0.5 * (1 - target) * (output.lengths - 0.1).clamp(min=0) ** 2
    error = (output.reconstructions - images.view(3, 784)) ** 2
    torch.testing.assert_close(losses.classification, margin.sum(1).mean())
    torch.testing.assert_close(losses.reconstruction, 0.0005 * error.sum(1).mean())
    torch.testing.assert_close(losses.total, losses.classification + losses.reconstruction)
    assert losses.correct.item() == (output.lengths.argmax(1) == labels).sum().item()
    losses.total.backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_without_a_decoder_the_margin_loss_is_all() -> None:
    network, whole = narrow(Decoder.NONE), narrow()
    images, labels = images_and_labels(3)
    assert not [name for name in network.state_dict() if name.startswith("decoder")]
    assert network(images, labels).reconstructions is None
    losses, with_decoder = network.loss(images, labels), whole.loss(images, labels)
    assert losses.reconstruction.item() == 0.0
    assert torch.equal(losses.total, losses.classification)
    # The decoder is made last: the same seed gives both the same capsules.
    assert torch.equal(losses.classification, with_decoder.classification)
    assert with_decoder.total > losses.total


def test_the_reconstruction_weight_scales_its_loss_alone() -> None:
    images, labels = images_and_labels(3)
    network = narrow()
    usual = network.loss(images, labels)
    network.reconstruction_weight = 0.002
    heavier = network.loss(images, labels)
    torch.testing.assert_close(heavier.reconstruction, 4 * usual.reconstruction)
    assert torch.equal(heavier.classification, usual.classification)


def test_training_decodes_the_label_and_evaluation_the_longest_capsule() -> None:
    network = narrow()
    assert network.decoder is not None
    images, labels = images_and_labels(4)
    longest = network.classify(images).argmax(1)
    wrong = (longest + 1) % 10
    network.train()
    trained = network(images, wrong)
    expected = network.decoder(trained.capsules, wrong)
    assert torch.equal(trained.reconstructions, expected)
    unlabelled = network(images)
    assert torch.equal(unlabelled.reconstructions, network.decoder(unlabelled.capsules, longest))
    assert not torch.equal(unlabelled.reconstructions, trained.reconstructions)
    network.eval()
    evaluated = network(images)
    assert torch.equal(evaluated.reconstructions, unlabelled.reconstructions)
    for shuffled in (labels, wrong, labels.flip(0)):
        assert torch.equal(network(images, shuffled).reconstructions, evaluated.reconstructions)
    reconstruction = network.loss(images, labels).reconstruction
    assert torch.equal(network.loss(images, wrong).reconstruction, reconstruction)


@pytest.mark.parametrize("batch", [1, 4, 16])
def test_reconstruction_loss_does_not_depend_on_the_batch_size(batch: int) -> None:
    network = narrow().double()
    image, label = images_and_labels(1)
    one = network.loss(image.double(), label)
    many = network.loss(image.double().repeat(batch, 1, 1, 1), label.repeat(batch))
    torch.testing.assert_close(many.reconstruction, one.reconstruction)
    torch.testing.assert_close(many.classification, one.classification)
    assert many.correct.item() == batch * one.correct.item()


def test_classify_gives_lengths_without_the_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    network = narrow()
    images, _ = images_and_labels(2)
    expected = network(images).lengths

    def refuse(*_: object) -> Tensor:
        raise AssertionError("the decoder ran")

    monkeypatch.setattr(network.decoder, "forward", refuse)
    torch.testing.assert_close(network.classify(images), expected)


def test_a_blank_image_has_finite_losses_and_gradients() -> None:
    network = narrow()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()  # every capsule is exactly zero
    losses = network.loss(torch.zeros(2, 1, 28, 28), torch.tensor([0, 1]))
    losses.total.backward()
    # Lengths 0: margin 0.9^2; sigmoid(0) = 0.5 against 0: 0.0005 * 784 * 0.25.
    assert losses.classification.item() == pytest.approx(0.81)
    assert losses.reconstruction.item() == pytest.approx(0.098)
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name


def test_routing_gradient_reaches_the_network() -> None:
    images, labels = images_and_labels(2)
    gradients = []
    for kind in RoutingGradient:
        torch.manual_seed(0)
        network = build_network(
            "capsnet-narrow",
            decoder=Decoder.FULL,
            weight_sharing=False,
            routing_gradient=kind,
        )
        weight = network.get_parameter("class_capsules.weight")
        with torch.no_grad():
            weight.mul_(5)
        gradients.append(torch.autograd.grad(network.loss(images, labels).total, weight)[0])
    full, last = gradients
    assert (full - last).norm() > 0.01 * full.norm()


def test_lenet_pads_to_32_and_reports_cross_entropy() -> None:
    torch.manual_seed(0)
    network = LeNet5()
    images, labels = images_and_labels(4)
    w = dict(network.named_parameters())
    padded = torch.zeros(4, 1, 32, 32)
    padded[:, :, 2:30, 2:30] = images
    x = F.max_pool2d(F.conv2d(padded, w["convolution1.weight"], w["convolution1.bias"]).relu(), 2)
    x = F.max_pool2d(F.conv2d(x, w["convolution2.weight"], w["convolution2.bias"]).relu(), 2)
    x = x.reshape(4, 400)
    for name in ("linear1", "linear2", "linear3"):
        x = F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])
        x = x if name == "linear3" else x.relu()
    torch.testing.assert_close(network.classify(images), x)
    losses = network.loss(images, labels)
    log_probabilities = x - x.exp().sum(1, keepdim=True).log()
    expected = -log_probabilities[torch.arange(4), labels].mean()
    torch.testing.assert_close(losses.total, expected)
    torch.testing.assert_close(losses.classification, expected)
    assert losses.reconstruction.item() == 0
    assert losses.correct.item() == (x.argmax(1) == labels).sum().item()
    losses.total.backward()
    assert all(p.grad is not None for p in network.parameters())


@pytest.mark.parametrize(("network", "lr"), [("capsnet-narrow", 2e-3), ("lenet5", 3e-3)])
def test_a_few_steps_learn_ten_bars(network: str, lr: float) -> None:
    torch.manual_seed(0)
    capsules = NETWORKS[network].has_capsules
    built = build_network(
        network,
        decoder=Decoder.REDUCED if capsules else None,
        weight_sharing=True if capsules else None,
    )
    optimiser = torch.optim.Adam(built.parameters(), lr=lr)
    labels = torch.arange(10)
    images = torch.zeros(10, 1, 28, 28)
    for label in range(10):
        images[label, 0, 4 + 2 * label : 6 + 2 * label, 4:24] = 1.0
    correct = []
    for _ in range(25):
        losses = built.loss(images, labels)
        optimiser.zero_grad()
        losses.total.backward()
        optimiser.step()
        correct.append(losses.correct.item())
    assert correct[0] <= 4
    assert correct[-1] == 10


@pytest.mark.gpu
def test_networks_on_cuda_equal_the_cpu() -> None:
    network = narrow(Decoder.REDUCED, weight_sharing=True).double()
    images, labels = images_and_labels(3)
    images = images.double()
    expected = network.loss(images, labels)
    got = network.cuda().loss(images.cuda(), labels.cuda())
    for cpu, cuda in zip(expected, got, strict=True):
        torch.testing.assert_close(cuda.cpu(), cpu)
