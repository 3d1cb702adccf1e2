"""A trunk as an ONNX graph, from token ids and a mask to the last hidden states, and that graph with int8 weights."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from pipeline_tasks.core.errors import InputError, installed_with

_LONGEST_BATCH = 4096

QUANTISATION = "7-bit-per-channel"
"""What :func:`quantise` does, in the identity of what its graphs make."""


def write_graph(model: Any, target: Path, max_length: int) -> None:
    """Write ``model``, loaded with eager attention, for batches of any size and texts up to ``max_length`` tokens.

    Raises:
        InputError: it takes other inputs than token ids and a mask, or cannot be exported.
    """
    import torch

    from pipeline_tasks.encoders.states import hidden_states

    class Hidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            return hidden_states(self.model, {"input_ids": input_ids, "attention_mask": attention_mask})

    ids = torch.full((2, min(16, max_length)), 5)
    mask = torch.ones_like(ids)
    mask[1, ids.shape[1] // 2 :] = 0
    rows = torch.export.Dim("batch", min=1, max=_LONGEST_BATCH)
    tokens = torch.export.Dim("tokens", min=2, max=max_length)
    names = ["input_ids", "attention_mask"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                Hidden().eval(),
                (ids, mask),
                target,
                input_names=names,
                output_names=["last_hidden_state"],
                dynamic_shapes=dict.fromkeys(names, {0: rows, 1: tokens}),
                external_data=False,
                verbose=False,
            )
    except ImportError as error:
        raise InputError(f"{error.name}, which writes graphs, is not installed: {installed_with('steps')}") from error
    except (RuntimeError, torch.onnx.errors.OnnxExporterError) as error:
        raise InputError(f"{type(model).__name__} cannot be exported to ONNX: run it on PyTorch") from error


def quantise(exact: Path, target: Path) -> None:
    """Write the graph ``exact`` with int8 weights, a scale a channel; activations are quantised as they come.

    Weights have 7 bits: with 8, a processor without VNNI adds two products up in 16 bits, which overflow, and its
    vectors are others (measured: a cosine of 0.75 for random weights, 0.985 in place of 0.990 for all-MiniLM-L6-v2).
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(
        exact,
        target,
        use_external_data_format=exact.with_name(f"{exact.name}.data").exists(),
        op_types_to_quantize=["MatMul", "Gemm"],
        per_channel=True,
        reduce_range=True,
        weight_type=QuantType.QInt8,
    )
