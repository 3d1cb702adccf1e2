"""What PyTorch does for nothing on a processor, left out while a model trains there.

In float32 its numbers stay, to the bit. In bfloat16 they come closer to the exact ones instead: attention without
dropout goes back through its own blocks one small product at a time, each of them set up anew; of short texts it takes
a fraction of that in float32.

Attention with dropout looks for queries that attend to nothing, through all weights of all heads, though every text
has a token. The gradient of the token embeddings is a matrix as large as the vocabulary for every piece of a batch, in
which all but the piece's own tokens are zero; such memory is fetched from the system each time, and given back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeGuard

import torch
from torch import Tensor
from torch.nn.functional import embedding

SHORT = 128
"""Tokens up to which attention in float32 is faster than PyTorch's in bfloat16; at 256 they are even."""


@contextmanager
def cpu_shortcuts(model: Any) -> Iterator[None]:
    """While the block lasts, ``model`` trains with them where it is on a processor, and computes what it would without.

    In float32 it is that to the bit, in bfloat16 up to its rounding.

    Gradients of its token embeddings are then added to ``grad`` as they come, and are not what ``torch.autograd.grad``
    gives.
    """
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as kernels

    if next(model.parameters()).device.type != "cpu":
        yield
        return
    tokens = model.get_input_embeddings()
    kernels["sdpa"] = partial(_attention, kernels["sdpa"])
    plain = type(tokens) is torch.nn.Embedding and tokens.max_norm is None and not tokens.scale_grad_by_freq
    if plain:
        tokens.forward = partial(_embedded, tokens)
    try:
        yield
    finally:
        del kernels["sdpa"]
        if plain:
            del tokens.forward


def _attention(
    usual: Any,
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **further: Any,
) -> tuple[Tensor, None]:
    """Softmax(q k^T scaling) v with dropout, float32, where every query attends to something; else ``usual``.

    Of short texts in bfloat16, without dropout, it is computed in float32.

    Shapes:
        query, key, value: [b, heads, s, d]; attention_mask: [b or 1, 1, s, s] bool; returns [b, s, heads, d].
    """
    half = torch.is_autocast_enabled("cpu")
    if half and not dropout and query.shape[2] <= SHORT and _plain(attention_mask, further):
        return _half_attention(query, key, value, attention_mask, scaling), None
    single = not half and query.dtype == torch.float32
    if not (dropout and single and query.shape[1] == key.shape[1] and _plain(attention_mask, further)):
        return usual(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **further)
    root = math.sqrt(query.shape[-1] ** -0.5 if scaling is None else scaling)
    weights = (query * root) @ (key * root).transpose(-2, -1)
    nothing = torch.zeros(attention_mask.shape, dtype=weights.dtype)
    weights.add_(nothing.masked_fill_(attention_mask.logical_not(), float("-inf")))
    weights = torch.dropout(torch.softmax(weights, -1), dropout, True)
    return (weights @ value).transpose(1, 2).contiguous(), None


def _plain(mask: Tensor | None, further: dict[str, Any]) -> TypeGuard[Tensor]:
    """Whether a mask alone says what is attended to, and every query attends to something."""
    if any(value is not None and name in ("is_causal", "position_bias", "softcap") for name, value in further.items()):
        return False
    return mask is not None and mask.dtype == torch.bool and bool(mask.any(-1).all())


def _half_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float | None) -> Tensor:
    """Softmax(q k^T scaling) v, where h query heads share a key's."""
    b, heads, s, d = query.shape
    together = b, key.shape[1], heads // key.shape[1] * s
    with torch.autocast("cpu", enabled=False):
        asked = query.float().mul(d**-0.5 if scaling is None else scaling).reshape(*together, d)
        weights = (asked @ key.float().transpose(-2, -1)).view(b, heads, s, -1)
        weights = torch.softmax(weights.masked_fill(mask.logical_not(), float("-inf")), -1)
        found = weights.view(*together, -1) @ value.float()
    return found.view(b, heads, s, -1).transpose(1, 2).to(torch.get_autocast_dtype("cpu"))


def _embedded(tokens: torch.nn.Embedding, ids: Tensor) -> Tensor:
    if not (tokens.weight.requires_grad and torch.is_grad_enabled()):
        return embedding(ids, tokens.weight, tokens.padding_idx)
    found: Tensor = _Embedded.apply(tokens.weight, ids, tokens.padding_idx)
    return found


class _Embedded(torch.autograd.Function):
    """Rows of a matrix, whose gradient is added to that of the matrix, to these rows alone."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, ids: Tensor, padding: int | None) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(ids)
        ctx.weight, ctx.padding = weight, padding
        return embedding(ids, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None]:  # type: ignore[override]
        (ids,), weight = ctx.saved_tensors, ctx.weight
        rows, places = torch.unique(ids, return_inverse=True)
        padding = (rows == ctx.padding).nonzero() if ctx.padding is not None else rows[:0]
        skipped = int(padding[0]) if len(padding) else -1
        own = torch.ops.aten.embedding_dense_backward(gradient, places, len(rows), skipped, False)
        weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
        weight.grad.index_add_(0, rows, own)
        return None, None, None
