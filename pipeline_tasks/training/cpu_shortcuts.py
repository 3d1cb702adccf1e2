"""What PyTorch does for nothing on a processor, left out while a model trains there: its numbers stay, to the bit.

Attention with dropout looks for queries that attend to nothing, through all weights of all heads, though every text
has a token. The gradient of the token embeddings is a matrix as large as the vocabulary for every piece of a batch, in
which all but the piece's own tokens are zero; such memory is fetched from the system each time, and given back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding


@contextmanager
def cpu_shortcuts(model: Any) -> Iterator[None]:
    """While the block lasts, ``model`` trains with them where it is on a processor, and computes what it would without.

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

    Shapes:
        query, key, value: [b, heads, s, d]; attention_mask: [b or 1, 1, s, s] bool; returns [b, s, heads, d].
    """
    if attention_mask is None or not (dropout and _plain(query, key, attention_mask, further)):
        return usual(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **further)
    root = math.sqrt(query.shape[-1] ** -0.5 if scaling is None else scaling)
    weights = (query * root) @ (key * root).transpose(-2, -1)
    nothing = torch.zeros(attention_mask.shape, dtype=weights.dtype)
    weights.add_(nothing.masked_fill_(attention_mask.logical_not(), float("-inf")))
    weights = torch.dropout(torch.softmax(weights, -1), dropout, True)
    return (weights @ value).transpose(1, 2).contiguous(), None


def _plain(query: Tensor, key: Tensor, mask: Tensor, further: dict[str, Any]) -> bool:
    """Whether PyTorch would do what :func:`_attention` does, in the order in which it does it."""
    if query.dtype != torch.float32 or torch.is_autocast_enabled("cpu") or query.shape[1] != key.shape[1]:
        return False
    if any(value is not None and name in ("is_causal", "position_bias", "softcap") for name, value in further.items()):
        return False
    return mask.dtype == torch.bool and bool(mask.any(-1).all())


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
