"""The arithmetic of a training: float32, or bfloat16 by autocast."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import DTensor


def arithmetic(model: Any, *, half: bool) -> torch.autocast:
    """bfloat16 where ``half``, for products of matrices; the weights stay as they are.

    autocast keeps its bfloat16 copy of every weight until the block ends. Where activations are computed again, or
    weights are divided, that would be the most of what is held: then a copy goes when its layer has computed. The
    numbers are the same.
    """
    first = next(model.parameters())
    keep = half and not (isinstance(first, DTensor) or model.is_activation_checkpointing)
    return torch.autocast(first.device.type, torch.bfloat16, enabled=half, cache_enabled=keep)
