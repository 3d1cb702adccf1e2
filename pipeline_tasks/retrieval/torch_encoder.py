"""Encoders that PyTorch runs: any transformers model whose last hidden states are pooled into one vector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.side_by_side import in_order, torch_threads
from pipeline_tasks.encoders.half_precision import warn_if_slow
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.encoders.states import check_looks_ahead
from pipeline_tasks.encoders.trunk import DType, load_model, on_device, vectors
from pipeline_tasks.models.use import load_tokenizer
from pipeline_tasks.retrieval.token_encoder import Batch, TokenEncoder

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
        warn_if_slow(source.precision, device, f"precision={source.precision}", "precision=float32")
        self._model = load_source(source, device)
        tokenizer = load_tokenizer(source.folder)
        width = source.layout.width(self._model.config.hidden_size)
        super().__init__(source.name, width, source.layout, tokenizer, batch_tokens(device))

    def pooled(self, batch: Batch) -> np.ndarray:
        """See :meth:`TokenEncoder.pooled`."""
        import torch

        half = self._dtype is not torch.float32
        lower = torch.autocast(torch.device(self._device).type, self._dtype) if half else nullcontext()
        with torch.inference_mode(), lower:
            return vectors(self._model, on_device(batch, self._device), self.layout).cpu().numpy()

    def _pooled_each(self, batches: Iterable[Batch]) -> Iterator[np.ndarray]:
        if self._device != "cpu":
            yield from super()._pooled_each(batches)
            return
        with torch_threads(self._threads) as pool:
            yield from in_order(pool, 2 * self._threads, self.pooled, batches)


def batch_tokens(device: str) -> int:
    """Padded tokens of one batch on that device."""
    return _BATCH_TOKENS_CPU if device == "cpu" else _BATCH_TOKENS_GPU


def load_source(source: TorchSource, device: str, attention: str | None = None) -> Any:
    """The transformers model of ``source`` on ``device``; see :func:`~pipeline_tasks.encoders.trunk.load_model`.

    Raises:
        InputError: the folder holds no such model, or one that does not look ahead where it is to, or the device is
            none that this machine has.
    """
    dtype: DType = "float32" if source.precision == "float32" else "auto"
    model = load_model(source.folder, dtype=dtype, causal=source.layout.causal, attention=attention)
    try:
        model = model.to(device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {device!r} cannot hold {source.name}: {error}; check FOUNDRY_DEVICES") from error
    check_looks_ahead(source.folder, model)
    return model
