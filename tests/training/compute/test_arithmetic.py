"""In bfloat16 a weight's copy is kept for its other uses, but not where that would be the most of what is held."""

import pytest
import torch

from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.training.compute.arithmetic import arithmetic


def gradients(folder, *, recompute: bool) -> tuple[dict[str, torch.Tensor], bool]:
    """Of a sum of vectors, and whether copies of weights were kept meanwhile."""
    encoder = load(folder)
    if recompute:
        encoder.model.activation_checkpointing_enable({"use_reentrant": False})
    encoder.model.train()
    torch.manual_seed(0)
    with arithmetic(encoder.model, half=True):
        kept = torch.is_autocast_cache_enabled()
        vectors = encoder.encode(encoder.features(encoder.tokens.ids(["ta wb", "tc wd we"], 16)))
    vectors[:, 0].sum().backward()
    return {name: w.grad for name, w in encoder.model.named_parameters() if w.grad is not None}, kept


def test_recomputed_activations_are_the_same_without_copies_of_weights(tiny_bert) -> None:
    (usual, kept), (recomputed, kept_then) = (gradients(tiny_bert, recompute=again) for again in (False, True))
    assert kept
    assert not kept_then
    assert usual
    assert all(torch.equal(recomputed[name], gradient) for name, gradient in usual.items())


@pytest.mark.parametrize("half", [False, True])
def test_products_are_in_bfloat16_where_that_is_asked(tiny_bert, half) -> None:
    model = load(tiny_bert).model
    with arithmetic(model, half=half):
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype == (torch.bfloat16 if half else torch.float32)
