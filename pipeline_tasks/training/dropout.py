"""Dropout on a processor at a fraction of its cost: the same share of numbers is dropped, chosen by a hash.

torch draws a number a place from one generator, one after the other, keeps what it drew as float32, and leaves its fast
attention as soon as any of it is dropped: a fifth of the time of a training step. Here one draw makes the key of a
tensor, and a place is dropped where the hash of key and place is low. Nothing is kept, since going backward makes it
again. What torch promises still holds: its generator's state decides everything, recomputed activations included.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

_PLACES = 1 << 32


@contextmanager
def hashed_dropout() -> Iterator[None]:
    """In the block, dropout of float32 tensors on a processor is by hash, alone and within attention.

    Functions of torch are exchanged, not a mode entered: torch leaves modes while it goes backward, where recomputed
    activations have to be dropped in the same way.
    """
    plain, fused = functional.dropout, functional.scaled_dot_product_attention

    def drop(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        if training and 0 < p < 1 and not inplace and _here(input):
            return dropped(input, p)
        return plain(input, p, training, inplace)

    def attend(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **others: Any,
    ) -> Tensor:
        if 0 < dropout_p < 1 and not is_causal and not others.get("enable_gqa") and _here(query):
            return attention(query, key, value, attn_mask, dropout_p, others.get("scale"))
        return fused(query, key, value, attn_mask, dropout_p, is_causal, **others)

    functional.dropout, functional.scaled_dot_product_attention = drop, attend  # type: ignore[assignment]
    try:
        yield
    finally:
        functional.dropout, functional.scaled_dot_product_attention = plain, fused  # type: ignore[assignment]


def _here(values: Tensor) -> bool:
    return values.device.type == "cpu" and values.dtype == torch.float32


def dropped(values: Tensor, p: float) -> Tensor:
    """``values`` with a share ``p`` of them set to 0, and the others divided by 1 - p."""
    return _Dropped.apply(values, p, torch.randint(_PLACES, (2,)).numpy().astype(np.uint32))


def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, p: float, scale: float | None = None
) -> Tensor:
    """Attention whose weights are dropped out.

    Shapes:
        query: [b, h, s, d]; key and value: [b, h, t, d]; mask: broadcasts to [b, h, s, t], True where a key is seen, or
        float32, which is added to the scores; returns [b, h, s, d].
    """
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        if mask.dtype == torch.bool:
            # Not minus infinity: a row that sees nothing must not become NaN.
            mask = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
        scores = scores + mask
    return dropped(scores.softmax(dim=-1), p) @ value


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, p: float, key: np.ndarray) -> Tensor:
        ctx.p, ctx.key = p, key
        return _drop(values, p, key)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return _drop(gradients[0], ctx.p, ctx.key), None, None


def _drop(values: Tensor, p: float, key: np.ndarray) -> Tensor:
    from pipeline_tasks.training.hashing import keep

    made = torch.empty(values.shape)
    flat = values.detach().contiguous().view(-1).numpy()
    keep(flat, key[0], key[1], np.uint32(round(p * _PLACES)), np.float32(1 / (1 - p)), made.view(-1).numpy())
    return made
