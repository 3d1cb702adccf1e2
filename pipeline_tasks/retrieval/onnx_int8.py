"""An int8 graph of an encoder for ONNX Runtime, and whether its vectors are good enough for the texts at hand.

Dynamic quantisation makes a small encoder faster on a CPU and turns its vectors. How far depends on the model and on
the texts, so that is measured before anything is built on them. Weights have a scale a channel, which costs a little
time: with one a matrix the least cosine fell from 0.989 to 0.930 (all-MiniLM-L6-v2, sentences of the sample corpus).
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.runtime import versions_of
from pipeline_tasks.core.store.disk import alone_in
from pipeline_tasks.encoders.onnx_export import QUANTISATION, quantise, write_graph
from pipeline_tasks.retrieval.encoder import Encoder
from pipeline_tasks.retrieval.torch_encoder import TorchSource, load_source

log = logging.getLogger(__name__)
LEAST_COSINE = 0.97
SAMPLE = 64


def graph_name() -> str:
    """File name of an int8 graph; it names what quantised it, and how: another version may choose other numbers."""
    return f"int8-{QUANTISATION}-onnxruntime-{versions_of('onnxruntime')['onnxruntime']}.onnx"


def quantised(source: TorchSource) -> Path:
    """The int8 graph beside the model's weights, made on first use; of two processes one makes it.

    Raises:
        InputError: the model takes other inputs than token ids and a mask, or cannot be exported.
    """
    target = source.folder / graph_name()
    if not _is_whole(target):
        work = source.folder / ".int8.partial"
        with alone_in(work):
            try:
                if not _is_whole(target):
                    _make(source, work, target)
            finally:
                shutil.rmtree(work)
    return target


def _make(source: TorchSource, work: Path, target: Path) -> None:
    """Quantise in ``work``, where a killed process may have left something."""
    for left in work.iterdir():
        left.unlink()
    exact, small = work / "exact.onnx", work / target.name
    write_graph(load_source(source, "cpu", attention="eager"), exact, source.layout.max_length)
    quantise(exact, small)
    for made in (_weights(small), small):  # the graph comes last: it says that both are there
        if made.is_file():
            made.replace(target.with_name(made.name))
    log.info("%s was quantised into %s", source.name, target)


def _weights(graph: Path) -> Path:
    """The file beside ``graph`` that has the weights of a large model."""
    return graph.with_name(f"{graph.name}.data")


def _is_whole(graph: Path) -> bool:
    """Whether it is there, and its weights as well where it names a file of them."""
    return graph.is_file() and (_weights(graph).is_file() or _weights(graph).name.encode() not in graph.read_bytes())


def check(int8: Encoder, exact: Encoder, passages: Sequence[str]) -> float:
    """The least cosine between int8 and exact vectors over a sample of ``passages``.

    Raises:
        InputError: it is below ``LEAST_COSINE``.
    """
    sample = sorted(set(passages))[:: max(1, len(set(passages)) // SAMPLE)][:SAMPLE]
    cosines = (int8.encode_passages(sample) * exact.encode_passages(sample)).sum(axis=1)
    least = float(cosines.min())
    log.info("%s: least cosine of int8 vectors over %d passages: %.4f", int8.name, len(sample), least)
    if least < LEAST_COSINE:
        worst = sample[int(np.argmin(cosines))]
        raise InputError(
            f"int8 vectors of {int8.name} have a cosine of only {least:.3f} to the exact ones ({worst[:60]!r}), "
            f"less than {LEAST_COSINE}: use precision=float32"
        )
    return least
