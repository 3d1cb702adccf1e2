"""ONNX graphs beside an exported model, compared with PyTorch before they are kept; the model's card says how they do.

They lie where sentence-transformers looks for them, ``onnx/model.onnx``, and give the last hidden states: pooling,
prompts and normalisation are those of the folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.layout import layout_of
from pipeline_tasks.encoders.onnx_export import quantise, write_graph
from pipeline_tasks.encoders.trunk import load_model
from pipeline_tasks.models.use import load_tokenizer
from pipeline_tasks.retrieval.encoder import Encoder
from pipeline_tasks.retrieval.onnx_encoder import OnnxEncoder
from pipeline_tasks.retrieval.torch_encoder import TorchEncoder, TorchSource

EXACT, INT8 = "onnx/model.onnx", "onnx/model_int8.onnx"
LARGEST_DIFFERENCE = 1e-5


def add_graphs(folder: Path, texts: Sequence[str], *, int8: bool, threads: int) -> dict[str, str]:
    """Write ``onnx/model.onnx`` into a model's folder, on demand one in int8 too; returns how each does, in words.

    Args:
        folder: of a model, as sentence-transformers reads it.
        texts: passages that vectors are compared on.
        int8: also write a graph with int8 weights, and measure what that costs.
        threads: of a processor.

    Raises:
        InputError: no texts, a model that ONNX cannot express, or a graph whose vectors are not PyTorch's.
    """
    if not texts:
        raise InputError("there is no text to compare a graph with PyTorch on: name a dataset that has some")
    layout = layout_of(folder)
    ours = TorchEncoder(TorchSource(folder.name, folder, layout, threads)).encode_passages(texts)

    def encoder(graph: Path) -> Encoder:
        return OnnxEncoder(folder.name, graph, layout, load_tokenizer(folder), threads)

    with tempfile.TemporaryDirectory(dir=folder, prefix=".onnx-") as work:
        exact, small = (Path(work) / Path(name).name for name in (EXACT, INT8))
        write_graph(load_model(folder, attention="eager"), exact, layout.max_length)
        largest = float(np.abs(encoder(exact).encode_passages(texts) - ours).max())
        if not largest <= LARGEST_DIFFERENCE:
            raise InputError(
                f"the graph's vectors differ from PyTorch's by {largest:.1e}, more than {LARGEST_DIFFERENCE:.0e}: "
                "export without --onnx"
            )
        said = {EXACT: f"float32; no number of a vector differs from PyTorch's by more than {largest:.1e}"}
        if int8:
            quantise(exact, small)
            said[INT8] = _loss((encoder(small).encode_passages(texts) * ours).sum(axis=1))
        (folder / "onnx").mkdir(exist_ok=True)
        for made in Path(work).iterdir():  # weights of large models lie beside their graph, which names their file
            made.rename(folder / "onnx" / made.name)
    return {name: f"{words} ({len(texts):,} passages)" for name, words in said.items()}


def _loss(cosines: np.ndarray) -> str:
    worst = float(cosines.min())
    return f"int8 weights; cosine to the exact vectors {cosines.mean():.4f} in the mean, {worst:.4f} at the least"
