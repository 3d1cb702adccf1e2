"""One model on several devices: a process each, batches dealt out as they are asked for.

The parent cuts the batches, so that the vectors do not depend on the number of devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from typing import Any

import numpy as np

from pipeline_tasks.core.engines.local import end_with_parent
from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.side_by_side import in_order
from pipeline_tasks.models.use import load_tokenizer
from pipeline_tasks.retrieval.token_encoder import Batch, TokenEncoder
from pipeline_tasks.retrieval.torch_encoder import TorchEncoder, TorchSource, batch_tokens

_AHEAD = 4
"""Batches a device that are cut before it takes them: it waits for none, and the parent holds no whole corpus."""
_given: list[tuple[TorchSource, str]] = []


class MultiDeviceEncoder(TokenEncoder):
    """A :class:`TorchEncoder` on each of ``devices``; the same device named twice is two processes on it."""

    def __init__(self, source: TorchSource, devices: tuple[str, ...]) -> None:
        context = get_context("spawn")
        free: Any = context.SimpleQueue()
        for device in devices:
            free.put(device)
        self._devices = devices
        self._pool = ProcessPoolExecutor(len(devices), context, _take_device, (free, source))
        tokenizer = load_tokenizer(source.folder)
        with self._ended_well():
            width = self._pool.submit(_width).result()
        super().__init__(source.name, width, source.layout, tokenizer, batch_tokens(devices[0]))

    def _pooled_each(self, batches: Iterable[Batch]) -> Iterator[np.ndarray]:
        with self._ended_well():
            yield from in_order(self._pool, _AHEAD * len(self._devices), _pooled, batches)

    def pooled(self, batch: Batch) -> np.ndarray:
        """See :meth:`TokenEncoder.pooled`."""
        return next(self._pooled_each([batch]))

    @contextmanager
    def _ended_well(self) -> Iterator[None]:
        try:
            yield
        except BrokenProcessPool as error:
            raise TransientError(
                f"an encoder process on one of {', '.join(self._devices)} ended, often for want of memory: try again"
            ) from error


def _take_device(free: Any, source: TorchSource) -> None:
    import torch

    end_with_parent()
    torch.set_num_threads(source.threads)
    _given.append((source, free.get()))


@cache
def _encoder() -> TorchEncoder:
    return TorchEncoder(*_given[0])


def _width() -> int:
    return _encoder().dim


def _pooled(batch: Batch) -> np.ndarray:
    return _encoder().pooled(batch)
