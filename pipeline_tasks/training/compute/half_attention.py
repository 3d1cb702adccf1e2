"""Attention and dropout of a training in bfloat16 on a processor; attention is computed in float32.

PyTorch's own sets up each small product anew on its way back, and with dropout it has no kernel at all: what it does
then goes through all weights of all heads many times.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

_LANES = 4
"""Numbers of 16 bits in one that a generator gives."""


def keep_mask(shape: torch.Size, probability: float) -> Tensor:
    """Which of so many numbers are kept, bool, with that probability to 1 in 65,536.

    A generator that begins where PyTorch's stands draws four at a time.
    """
    n = math.prod(shape)
    seed = int(torch.randint(2**62, ()))
    drawn = np.random.SFC64(seed).random_raw(-(-n // _LANES)).view(np.int16)[:n]
    return torch.from_numpy(drawn).lt(round(probability * 2**16) - 2**15).view(shape)


def half_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float | None, dropout: float
) -> Tensor:
    """Softmax(q k^T scaling) v with dropout, where h query heads share a key's.

    Shapes:
        query: [b, h k, s, d]; key, value: [b, k, s, d]; mask: [b or 1, 1, s, s] bool; returns [b, s, h k, d] in the
        kind of number of the block's autocast.
    """
    b, heads, s, d = query.shape
    together = b * key.shape[1], heads // key.shape[1] * s, d
    with torch.autocast("cpu", enabled=False):
        asked = query.float().mul(d**-0.5 if scaling is None else scaling).reshape(together)
        known = [each.float().reshape(together[0], -1, d) for each in (key, value)]
        found = _Attention.apply(asked, *known, mask, (b, heads, s, -1), dropout)
    return found.view(b, heads, s, d).transpose(1, 2).to(torch.get_autocast_dtype("cpu"))


class _Attention(torch.autograd.Function):
    """Of weights it keeps one copy for the way back, and which of them are kept."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, by_head: tuple[int, ...], dropout: float
    ) -> Tensor:
        weights = query @ key.transpose(-2, -1)
        weights.view(by_head).add_(torch.zeros(mask.shape).masked_fill_(mask.logical_not(), float("-inf")))
        weights = torch.softmax(weights, -1)
        left = keep_mask(weights.shape, 1 - dropout) if dropout else None
        ctx.save_for_backward(query, key, value, weights, left)
        ctx.scale = 1 / (1 - dropout)
        return _left(weights, left) @ value * ctx.scale

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        query, key, value, weights, left = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            gradient = gradient * ctx.scale
            of_value = _left(weights, left).transpose(-2, -1) @ gradient
            of_weights = _left(gradient @ value.transpose(-2, -1), left)
            of_scores = torch._softmax_backward_data(of_weights, weights, -1, torch.float32)
            return of_scores @ key, of_scores.transpose(-2, -1) @ query, of_value, None, None, None


def _left(weights: Tensor, left: Tensor | None) -> Tensor:
    return weights if left is None else left.to(weights.dtype).mul_(weights)
