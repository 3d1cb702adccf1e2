"""Encoders that ONNX Runtime runs on the CPU, as a rule with int8 weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.encoders.projection import project
from pipeline_tasks.retrieval.onnx_session import open_session
from pipeline_tasks.retrieval.token_encoder import Batch, TokenEncoder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_ONE_TEXT = 1


class OnnxEncoder(TokenEncoder):
    """A graph whose first output is the last hidden state; a vector depends on its own text alone.

    Dynamic quantisation scales activations by the extremes of the whole batch, so that neighbours would turn a vector
    (measured: cosine 0.995 to itself). Texts are run one at a time; on a CPU that costs nothing, there is no padding.
    """

    def __init__(self, name: str, graph: Path, layout: Layout, tokenizer: Tokenizer, threads: int) -> None:
        self._session = open_session(graph, threads)
        self._inputs = {given.name for given in self._session.get_inputs()}
        shape = self._session.get_outputs()[0].shape
        if layout.pooling == "own" or len(shape) != 3:
            raise InputError(
                f"{graph} gives {shape} for pooling {layout.pooling!r}: only hidden states with mean, cls or last work"
            )
        super().__init__(name, layout.width(int(shape[2])), layout, tokenizer, _ONE_TEXT)

    def pooled(self, batch: Batch) -> np.ndarray:
        """See :meth:`TokenEncoder.pooled`."""
        feeds = batch | {"token_type_ids": np.zeros_like(batch["input_ids"])}
        hidden = self._session.run(None, {name: value for name, value in feeds.items() if name in self._inputs})[0]
        return project(self._pool(hidden, batch), self.layout.projection)

    def _pool(self, hidden: np.ndarray, batch: Batch) -> np.ndarray:
        if self.layout.pooling == "cls":
            return hidden[:, 0]
        if self.layout.pooling == "last":
            return hidden[np.arange(len(hidden)), batch["attention_mask"].sum(axis=1) - 1]
        weights = batch["pooling_mask"][:, :, None].astype(np.float32)
        return (hidden * weights).sum(axis=1) / weights.sum(axis=1)
