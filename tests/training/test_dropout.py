"""Dropout by hash drops what dropout has to drop, on the way forward and on the way back."""

import pytest
import torch
from torch.nn import functional

from pipeline_tasks.training.dropout import hashed_dropout

SHAPE = (2, 3, 16, 8)


def test_the_asked_share_is_dropped_and_the_mean_stays() -> None:
    ones = torch.ones(200_000)
    with hashed_dropout():
        made = functional.dropout(ones, 0.1)
    assert sorted(set(made.tolist())) == pytest.approx([0, 1 / 0.9])
    assert (made == 0).float().mean().item() == pytest.approx(0.1, abs=0.004)
    assert torch.corrcoef((made == 0).float().view(2, -1))[0, 1].abs() < 0.015


def test_the_gradient_passes_where_the_number_passed() -> None:
    values = torch.rand(64, 5, requires_grad=True)
    with hashed_dropout():
        made = functional.dropout(values, 0.5)
    made.sum().backward()
    torch.testing.assert_close(values.grad * values.detach(), made.detach())


def test_the_generator_decides_and_every_call_drops_others() -> None:
    ones = torch.ones(1000)
    drawn = []
    with hashed_dropout(), torch.random.fork_rng():
        for seed in (3, 3, 4):
            torch.manual_seed(seed)
            drawn += [functional.dropout(ones, 0.5), functional.dropout(ones, 0.5)]
    assert torch.equal(drawn[0], drawn[2])
    assert torch.equal(drawn[1], drawn[3])
    assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[4])


@pytest.mark.parametrize("masked", [False, True])
def test_attention_that_drops_next_to_nothing_is_that_of_torch(masked: bool) -> None:
    tensors = [torch.randn(SHAPE, requires_grad=True) for _ in range(3)]
    mask = (torch.arange(16) < 11).expand(2, 1, 16, 16) if masked else None
    plain = functional.scaled_dot_product_attention(*tensors, attn_mask=mask)
    with hashed_dropout():
        made = functional.scaled_dot_product_attention(*tensors, attn_mask=mask, dropout_p=1e-12)
    torch.testing.assert_close(made, plain)
    wanted, found = (torch.autograd.grad(out.square().sum(), tensors) for out in (plain, made))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_dropout_that_is_off_leaves_everything() -> None:
    ones = torch.ones(100)
    with hashed_dropout():
        assert torch.equal(functional.dropout(ones, 0.5, training=False), ones)
