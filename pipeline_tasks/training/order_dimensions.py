"""An embedder's dimensions in order of what they tell of a corpus, so that the first ones are an embedding."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import unit_hash
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import From, step
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.encoders.devices import devices
from pipeline_tasks.encoders.projection import turned
from pipeline_tasks.models.start import EmbeddingStartParams
from pipeline_tasks.training.data.ragged import Ragged
from pipeline_tasks.training.data.split_rows import of_split
from pipeline_tasks.training.stage import folder_of_start

if TYPE_CHECKING:
    from pipeline_tasks.encoders.trunk import TrainableEncoder

_AT_ONCE = 512
_TOKENS_AT_ONCE = 2048


class OrderDimensionsParams(EmbeddingStartParams):
    """Which model, and by how much text."""

    size: str = Field("22m", description="size of the model: 22m, 33m, 109m, 135m, 335m, 596m, 4b or 7.6b")
    n_passages: int = Field(
        10_000, ge=1, description="passages that the principal axes are computed on, sampled by the hash of their ids"
    )
    start_from: tuple[str, ...] = Field(
        (), max_length=1, description="trained model, such as model/22m/finetune; empty: the size's backbone"
    )
    dims: int | None = Field(None, ge=1, description="dimensions that vectors are truncated to; empty: all, in order")


@step(
    reads={"passages": PASSAGES, "init": From(None, "{item}", each="start_from", optional=True)},
    writes=None,
    kind="reduce",
    dataset="model/{size}/ordered",
    version="3",
    image="gpu",
    pool="gpu",
    memory_gib=8,
)
def order_dimensions(inputs: Inputs, params: OrderDimensionsParams, run: Run) -> Path:
    """Turn a model's vectors so that their first dimensions tell most; cosines of whole vectors stay as they are.

    A rotation after pooling, along the principal axes of passages: of all rotations the one after which products of the
    first n dimensions are nearest to those of all dimensions, by least squares over pairs of these passages, for every
    n. No weight changes, and nothing is lost at full width. With ``dims`` vectors are cut here; without,
    sentence-transformers does it (``truncate_dim``), at any length. A training on prefixes (``matryoshka``) may start
    from it, or come before it.

    Source: Eckart and Young 1936; beyond DMRetriever and Gecko, whose 256 dimensions are trained.

    Raises:
        InputError: there are fewer passages than dimensions, or fewer dimensions than ``dims``.
    """
    from pipeline_tasks.encoders.trunk import load
    from pipeline_tasks.training.compute.reproducible import reproducible
    from pipeline_tasks.training.model.export import export

    folder, origin = folder_of_start(inputs, params, run)
    encoder = load(folder, devices().split(",")[0])
    dims = params.dims or encoder.width
    if dims > encoder.width:
        raise InputError(f"dims={dims}, but {params.size} has {encoder.width} dimensions: choose fewer")
    texts = sample(inputs["passages"], params.n_passages)
    if len(texts) < encoder.width:
        remedy = f"raise n_passages={params.n_passages}"
        if len(texts) < params.n_passages:
            remedy = f"{inputs['passages'].manifest.ref} has no more, so take a larger corpus or a narrower model"
        raise InputError(
            f"{len(texts)} passages to train on for {encoder.width} dimensions: as many are needed, better ten times "
            f"as many; {remedy}"
        )
    with reproducible(settings().threads), run.progress(len(texts), "passages") as meter:
        axes, shares = principal_axes(_vectors(encoder, texts, meter.advance))
    run.count("passages", len(texts))
    share_of = {n: round(float(shares[:n].sum()), 4) for n in (dims, encoder.width // 2, encoder.width // 4)}
    for n, share in share_of.items():
        run.count(f"share_of_first_{n}", share)
    layout = replace(encoder.layout, projection=turned(encoder.layout.projection, axes[:dims]))
    card = {
        "name": f"{params.size} ordered",
        "summary": "Dense retriever whose first dimensions are an embedding themselves.",
        **origin,
        "ordered by": str(inputs["passages"].manifest.ref),
        "squared length of passages": {f"in the first {n}": f"{share:.1%}" for n, share in share_of.items()},
    }
    export(encoder, out := run.scratch / "model", card=card, layout=layout)
    return out


def sample(passages: Version, n: int) -> list[str]:
    """The texts of ``n`` passages to train on, or of all; the same ones after a refresh as far as they are there."""
    hashed = (
        (unit_hash("order_dimensions", row["passage_id"]), row["text"])
        for rows in of_split(passages, ["passage_id", "text"], "train")
        for row in rows.to_pylist()
    )
    return [text for _, text in heapq.nsmallest(n, hashed)]


def principal_axes(blocks: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The axes of the largest second moments, and the share of the squared length that lies along each.

    Shapes:
        blocks: [n, d] each; returns [d, d], an axis a row, the largest first, and [d].
    """
    moments = sum(block.T.astype(np.float64) @ block for block in blocks)
    lengths, columns = np.linalg.eigh(moments)
    axes = columns[:, ::-1].T
    # An axis points either way; so that it is always the same one, its largest part is positive.
    largest = np.abs(axes).argmax(axis=1)
    signs = np.sign(axes[np.arange(len(axes)), largest])
    return axes * signs[:, None], lengths[::-1] / lengths.sum()


def _vectors(encoder: TrainableEncoder, texts: Sequence[str], done: Callable[[int], None]) -> Iterator[np.ndarray]:
    from pipeline_tasks.training.validation import embed

    layout, prefix = encoder.layout, encoder.layout.passage_prefix()
    unpooled = encoder.tokens.prefix_lengths(["" if layout.pools_prefix else prefix])
    for start in range(0, len(texts), _AT_ONCE):
        some = [prefix + text for text in texts[start : start + _AT_ONCE]]
        ids = encoder.tokens.ids(some, layout.max_length)
        sequences = Ragged.of(np.array([len(of) for of in ids]), np.concatenate(ids))
        yield embed(encoder, sequences, _TOKENS_AT_ONCE, False, unpooled.repeat(len(some)))
        done(len(some))
