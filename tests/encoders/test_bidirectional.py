"""A later token moves an earlier hidden state just where attention goes both ways, however a batch is padded."""

from __future__ import annotations

import pytest
import torch

from pipeline_tasks.encoders.trunk import load_model
from tests import shapes

TOKENS = torch.tensor([[5, 6, 7, 8, 9]])
LATER = torch.tensor([[5, 6, 7, 8, 20]])
PADS = 3


@pytest.fixture(scope="module", params=shapes.DECODERS)
def folder(request, tmp_path_factory):
    return shapes.make(request.param, tmp_path_factory.mktemp(request.param))


def first_state(model, tokens: torch.Tensor, side: str) -> torch.Tensor:
    """The hidden state of the first token, beside a longer text, padded on that side."""
    pads = torch.zeros(1, PADS, dtype=torch.long)
    ids, mask = [tokens, pads], [torch.ones_like(tokens), pads]
    if side == "left":
        ids, mask = ids[::-1], mask[::-1]
    longer = torch.full((1, tokens.shape[1] + PADS), 11)
    batch = torch.cat([torch.cat(ids, dim=1), longer]), torch.cat([torch.cat(mask, dim=1), torch.ones_like(longer)])
    with torch.inference_mode():
        hidden = model(input_ids=batch[0], attention_mask=batch[1]).last_hidden_state
    return hidden[0, PADS if side == "left" else 0]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("causal", [True, False, None])
def test_a_later_token_is_seen_or_not(folder, attention, side, causal):
    model = load_model(folder, causal=causal, attention=attention)
    moved = (first_state(model, TOKENS, side) - first_state(model, LATER, side)).abs().max()
    assert moved > 1e-3 if causal is False else moved < 1e-6


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_it_is_saved_with_the_model(folder, tmp_path, attention):
    from transformers import AutoModel

    load_model(folder, causal=False).save_pretrained(tmp_path)
    model = AutoModel.from_pretrained(tmp_path, attn_implementation=attention).eval()
    for side in ("left", "right"):
        assert (first_state(model, TOKENS, side) - first_state(model, LATER, side)).abs().max() > 1e-3
