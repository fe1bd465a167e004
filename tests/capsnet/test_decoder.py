"""What the decoder reads."""

from __future__ import annotations

import pytest
import torch

from fastrcaps_search.capsnet.layers import CapsuleDecoder, mask, select
from fastrcaps_search.definition.choices import Decoder


def test_mask_and_select_by_hand() -> None:
    capsules = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])
    chosen = torch.tensor([1, 0])
    assert mask(capsules, chosen).tolist() == [[0, 0, 3, 4], [5, 6, 0, 0]]
    assert select(capsules, chosen).tolist() == [[3, 4], [5, 6]]


@pytest.mark.parametrize("kind", list(Decoder))
def test_only_the_chosen_capsule_matters(kind: Decoder) -> None:
    torch.manual_seed(0)
    decoder = CapsuleDecoder(kind)
    capsules = torch.randn(3, 10, 16, requires_grad=True)
    chosen = torch.tensor([4, 0, 9])
    pixels = decoder(capsules, chosen)
    assert pixels.shape == (3, 784)
    assert ((pixels > 0) & (pixels < 1)).all()
    (gradient,) = torch.autograd.grad(pixels.sum(), capsules)
    moved = {(b, j) for b in range(3) for j in range(10) if gradient[b, j].abs().sum() > 0}
    assert moved == {(0, 4), (1, 0), (2, 9)}


def test_the_reduced_decoder_does_not_know_which_class_it_reads() -> None:
    torch.manual_seed(0)
    same = torch.randn(1, 1, 16).expand(2, 10, 16)
    chosen = torch.tensor([2, 7])
    reduced = CapsuleDecoder(Decoder.REDUCED)(same, chosen)
    full = CapsuleDecoder(Decoder.FULL)(same, chosen)
    assert torch.equal(reduced[0], reduced[1])
    assert not torch.allclose(full[0], full[1])
