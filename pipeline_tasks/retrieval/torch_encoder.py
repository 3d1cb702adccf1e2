"""Encoders that PyTorch runs: any transformers model whose last hidden states are pooled into one vector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.models.registry import Pooling
from pipeline_tasks.models.use import load_tokenizer
from pipeline_tasks.retrieval.side_by_side import in_order, torch_threads
from pipeline_tasks.retrieval.token_encoder import Batch, TokenEncoder

if TYPE_CHECKING:
    from torch import Tensor

POOLED_HERE = ("mean", "cls", "last")
_BATCH_TOKENS_CPU = 2048
_BATCH_TOKENS_GPU = 65536


@dataclass(frozen=True)
class TorchSource:
    """What an encoder is opened from; it travels to other processes."""

    name: str
    folder: Path
    layout: Layout
    threads: int
    precision: str = "float32"


class TorchEncoder(TokenEncoder):
    """A transformers model in evaluation mode on one device.

    On a processor every thread has a batch of its own: nothing waits for another thread after each layer, and what a
    batch gives does not depend on their number.

    ``float32`` computes and holds the weights in it; ``bfloat16`` and ``float16`` keep the weights as they were saved
    and multiply matrices in half precision (autocast). Code that lies in the model's folder is never run.
    """

    def __init__(self, source: TorchSource, device: str = "cpu") -> None:
        import torch

        if source.layout.pooling not in POOLED_HERE:
            raise InputError(f"{source.name} pools in a way of its own: only {', '.join(POOLED_HERE)} work here")
        self._device, self._threads = device, source.threads
        self._dtype = getattr(torch, source.precision)
        self._model = load_model(source, device)
        tokenizer = load_tokenizer(source.folder)
        width = self._model.config.hidden_size
        super().__init__(source.name, width, source.layout, tokenizer, batch_tokens(device))

    def pooled(self, ids: np.ndarray, mask: np.ndarray, counted: np.ndarray) -> np.ndarray:
        """See :meth:`TokenEncoder.pooled`."""
        import torch

        half = self._dtype is not torch.float32
        lower = torch.autocast(torch.device(self._device).type, self._dtype) if half else nullcontext()
        with torch.inference_mode(), lower:
            here = torch.from_numpy(mask).to(self._device)
            tokens = torch.from_numpy(ids).to(self._device)
            hidden = self._model(input_ids=tokens, attention_mask=here).last_hidden_state
            over = torch.from_numpy(counted).to(self._device) if self.layout.pooling == "mean" else here
            return pool(hidden.float(), over, self.layout.pooling).cpu().numpy()

    def _pooled_each(self, batches: Iterable[Batch]) -> Iterator[np.ndarray]:
        if self._device != "cpu":
            yield from super()._pooled_each(batches)
            return
        with torch_threads(self._threads) as pool:
            yield from in_order(pool, 2 * self._threads, lambda batch: self.pooled(*batch), batches)


def batch_tokens(device: str) -> int:
    """Padded tokens of one batch on that device."""
    return _BATCH_TOKENS_CPU if device == "cpu" else _BATCH_TOKENS_GPU


def load_model(source: TorchSource, device: str, attention: str | None = None) -> Any:
    """The transformers model of ``source`` in evaluation mode, with the attention kernel of that name or its own best.

    Raises:
        InputError: the folder holds no model that transformers can load without code of its own, or the device is
            none that this machine has.
    """
    import torch
    from transformers import AutoConfig, AutoModel
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    safely: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    dtype = torch.float32 if source.precision == "float32" else "auto"
    try:
        config = AutoConfig.from_pretrained(source.folder, **safely)
        config.use_cache = False
        if source.layout.causal is not None:
            config.is_causal = source.layout.causal
        if attention is not None:
            safely["attn_implementation"] = attention
        model = AutoModel.from_pretrained(source.folder, config=config, dtype=dtype, **safely)
    except (OSError, ValueError) as error:
        raise InputError(f"{source.folder} holds no model that transformers can load: {error}") from error
    try:
        return model.eval().to(device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {device!r} cannot hold {source.name}: {error}; check FOUNDRY_DEVICES") from error


def pool(hidden: Tensor, mask: Tensor, pooling: Pooling) -> Tensor:
    """One vector per text out of its hidden states; what is padding (on the right) has no say.

    Shapes:
        hidden: [b, s, d]; mask: [b, s], 1 for tokens; returns [b, d].
    """
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "last":
        last = mask.sum(dim=1) - 1
        return hidden[last.new_tensor(range(len(last))), last]
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1)
