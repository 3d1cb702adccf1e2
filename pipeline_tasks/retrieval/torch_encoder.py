"""Encoders that PyTorch runs: any transformers model whose last hidden states are pooled into one vector."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.models.registry import Pooling
from pipeline_tasks.retrieval.encoders import Encoder
from pipeline_tasks.retrieval.layout import Layout

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

_BATCH_TOKENS_CPU = 4096
_BATCH_TOKENS_GPU = 65536


class TorchEncoder(Encoder):
    """A transformers model in evaluation mode: float32 on a CPU, the dtype it was saved in on a GPU."""

    def __init__(
        self, name: str, folder: Path, layout: Layout, tokenizer: Tokenizer, threads: int, device: str = "cpu"
    ) -> None:
        import torch
        from transformers import AutoModel
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()
        on_cpu = device == "cpu"
        try:
            model = AutoModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32 if on_cpu else "auto")
        except (OSError, ValueError) as error:
            raise InputError(f"{folder} holds no model that transformers can load: {error}") from error
        self._model, self._device, self._threads = model.eval().to(device), device, threads
        budget = _BATCH_TOKENS_CPU if on_cpu else _BATCH_TOKENS_GPU
        super().__init__(name, model.config.hidden_size, layout, tokenizer, budget)

    def _pooled(self, ids: np.ndarray, mask: np.ndarray, counted: np.ndarray) -> np.ndarray:
        import torch

        with torch.inference_mode(), _threads(self._threads):
            here = torch.from_numpy(mask).to(self._device)
            hidden = self._model(
                input_ids=torch.from_numpy(ids).to(self._device), attention_mask=here
            ).last_hidden_state
            over = torch.from_numpy(counted).to(self._device) if self.layout.pooling == "mean" else here
            return pool(hidden.float(), over, self.layout.pooling).cpu().numpy()


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


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """Torch with that many threads inside, with as many as before afterwards: training in this process has its own."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
