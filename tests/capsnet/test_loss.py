"""Losses by hand numbers."""

from __future__ import annotations

import pytest
import torch

from fastrcaps_search.capsnet.layers import margin_loss, reconstruction_loss
from fastrcaps_search.capsnet.trainable import count_correct


def test_margin_loss_by_hand() -> None:
    # Row 0, label 0: present 0.5 misses 0.9 by 0.4; absent 0.3 exceeds 0.1 by 0.2; 0.05 is free:
    #   0.4^2 + 0.5 * 0.2^2 = 0.16 + 0.02 = 0.18
    # Row 1, label 2: present 0.95 is long enough; absent 0.1 is free, 0.7 exceeds by 0.6:
    #   0.5 * 0.6^2 = 0.18, so row 2 makes the mean uneven
    # Row 2, label 1: nothing present: 0.9^2 = 0.81
    lengths = torch.tensor([[0.5, 0.3, 0.05], [0.1, 0.7, 0.95], [0.0, 0.0, 0.0]])
    labels = torch.tensor([0, 2, 1])
    assert margin_loss(lengths, labels).item() == pytest.approx((0.18 + 0.18 + 0.81) / 3)


def test_reconstruction_loss_by_hand() -> None:
    # Every pixel is off by 0.5: 0.0005 * 784 * 0.25 = 0.098 an image.
    images = torch.full((2, 1, 28, 28), 0.25)
    reconstructions = torch.full((2, 784), 0.75)
    loss = reconstruction_loss(reconstructions, images, weight=0.0005)
    assert loss.item() == pytest.approx(0.098)
    # The weight is the only factor: a fifth of it gives a fifth, none gives nothing.
    loss = reconstruction_loss(reconstructions, images, weight=0.0001)
    assert loss.item() == pytest.approx(0.0196)
    assert reconstruction_loss(reconstructions, images, weight=0.0).item() == 0.0


@pytest.mark.parametrize("batch", [1, 5, 32])
def test_losses_do_not_depend_on_the_batch_size(batch: int) -> None:
    torch.manual_seed(0)
    image = torch.rand(1, 1, 28, 28, dtype=torch.float64)
    reconstruction = torch.rand(1, 784, dtype=torch.float64)
    lengths = torch.rand(1, 10, dtype=torch.float64)
    label = torch.tensor([3])
    torch.testing.assert_close(
        reconstruction_loss(
            reconstruction.expand(batch, -1), image.expand(batch, -1, -1, -1), weight=0.002
        ),
        reconstruction_loss(reconstruction, image, weight=0.002),
    )
    torch.testing.assert_close(
        margin_loss(lengths.expand(batch, -1), label.expand(batch)), margin_loss(lengths, label)
    )


def test_correct_counts_rows_whose_label_is_largest() -> None:
    outputs = torch.tensor([[0.1, 0.9], [0.8, 0.2], [0.3, 0.4]], requires_grad=True)
    correct = count_correct(outputs, torch.tensor([1, 1, 1]))
    assert correct.item() == 2
    assert correct.dtype == torch.int64
    assert not correct.requires_grad
