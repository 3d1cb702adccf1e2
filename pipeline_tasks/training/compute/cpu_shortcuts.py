"""What PyTorch does for nothing on a processor, left out while a model trains there.

In float32 its numbers stay, to the bit. In bfloat16 attention comes closer to the exact one instead
(:mod:`pipeline_tasks.training.compute.half_attention`), and what dropout drops is drawn by a faster generator.

Attention with dropout looks for queries that attend to nothing, through all weights of all heads, though every text
has a token. The gradient of the token embeddings is a matrix as large as the vocabulary for every piece of a batch, in
which all but the piece's own tokens are zero. And memory of any size is given back to the system as it becomes free,
so that the next operation asks for it again, page by page.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeGuard

import torch
from torch import Tensor
from torch.nn import functional

from pipeline_tasks.training.compute.half_attention import half_attention, keep_mask

SHORT = 128
"""Tokens up to which attention without dropout is faster in float32 than by PyTorch in bfloat16; 256: even."""
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
"""Settings of the C library by number, see mallopt(3)."""


@contextmanager
def cpu_shortcuts(model: Any) -> Iterator[None]:
    """While the block lasts, ``model`` trains with them where it is on a processor, and computes what it would without.

    In float32 it is that to the bit, in bfloat16 up to its rounding and to which numbers dropout drops.

    Gradients of its token embeddings are then added to ``grad`` as they come, and are not what ``torch.autograd.grad``
    gives.
    """
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as kernels

    if next(model.parameters()).device.type != "cpu":
        yield
        return
    tokens = model.get_input_embeddings()
    plain = type(tokens) is torch.nn.Embedding and tokens.max_norm is None and not tokens.scale_grad_by_freq
    shorter: dict[Any, Any] = {tokens: _embedded} if plain else {}
    shorter |= {module: _dropped_out for module in model.modules() if type(module) is torch.nn.Dropout}
    kernels["sdpa"] = partial(_attention, kernels["sdpa"])
    for module, forward in shorter.items():
        module.forward = partial(forward, module)
    try:
        with _memory_kept():
            yield
    finally:
        del kernels["sdpa"]
        for module in shorter:
            del module.forward


@contextmanager
def _memory_kept() -> Iterator[None]:
    """What becomes free is used again and not given back before the end, where the C library can be told so."""
    library = ctypes.CDLL(None)
    tell = getattr(library, "mallopt", None)
    if tell is None:
        yield
        return
    tell(_TRIM_THRESHOLD, -1)
    tell(_MMAP_MAX, 0)
    try:
        yield
    finally:
        tell(_TRIM_THRESHOLD, 128 * 1024)
        tell(_MMAP_MAX, 65_536)
        library.malloc_trim(0)


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

    In bfloat16, with dropout or of short texts, it is computed in float32.

    Shapes:
        query, key, value: [b, heads, s, d]; attention_mask: [b or 1, 1, s, s] bool; returns [b, s, heads, d].
    """
    half = torch.is_autocast_enabled("cpu")
    if half and (dropout or query.shape[2] <= SHORT) and _plain(attention_mask, further):
        return half_attention(query, key, value, attention_mask, scaling, dropout), None
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


def _embedded(tokens: torch.nn.Embedding, ids: Tensor) -> Tensor:
    if not (tokens.weight.requires_grad and torch.is_grad_enabled()):
        return functional.embedding(ids, tokens.weight, tokens.padding_idx)
    found: Tensor = _Embedded.apply(tokens.weight, ids, tokens.padding_idx)
    return found


def _dropped_out(module: torch.nn.Dropout, hidden: Tensor) -> Tensor:
    if not (module.training and module.p and torch.is_autocast_enabled("cpu")):
        return functional.dropout(hidden, module.p, module.training, module.inplace)
    return hidden * keep_mask(hidden.shape, 1 - module.p).to(hidden.dtype).div_(1 - module.p)


class _Embedded(torch.autograd.Function):
    """Rows of a matrix, whose gradient is added to that of the matrix, to these rows alone."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, ids: Tensor, padding: int | None) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(ids)
        ctx.weight, ctx.padding = weight, padding
        return functional.embedding(ids, weight)

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
