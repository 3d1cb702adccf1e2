"""Encoders that ONNX Runtime runs on the CPU, as a rule with int8 weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.retrieval.encoders import Encoder
from pipeline_tasks.retrieval.layout import Layout

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_ONE_TEXT = 1


class OnnxEncoder(Encoder):
    """A graph whose first output is the last hidden state; a vector depends on its own text alone.

    Dynamic quantisation scales activations by the extremes of the whole batch, so texts are run one at a
    time. That costs nothing on a
    CPU: there is no padding.
    """

    def __init__(self, name: str, folder: Path, layout: Layout, tokenizer: Tokenizer, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        path = folder / "model.onnx"
        self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self._inputs = {given.name for given in self._session.get_inputs()}
        shape = self._session.get_outputs()[0].shape
        if layout.pooling == "last" or len(shape) != 3:
            raise InputError(
                f"{path} gives {shape} for pooling {layout.pooling!r}: only hidden states with mean or cls work"
            )
        super().__init__(name, int(shape[2]), layout, tokenizer, _ONE_TEXT)

    def _pooled(self, ids: np.ndarray, mask: np.ndarray, counted: np.ndarray) -> np.ndarray:
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = self._session.run(None, {name: value for name, value in feeds.items() if name in self._inputs})[0]
        if self.layout.pooling == "cls":
            return hidden[:, 0]
        weights = counted[:, :, None].astype(np.float32)
        return (hidden * weights).sum(axis=1) / weights.sum(axis=1)
