"""Rankings of the systems under evaluation: one function each, texts in, ranked passage positions out."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.versions import Version
from pipeline_tasks.models.registry import backbone
from pipeline_tasks.models.use import folder
from pipeline_tasks.retrieval.encoders import load_encoder, open_encoder
from pipeline_tasks.retrieval.search import top_k


def rank_bm25(queries: list[str], passages: list[str], depth: int) -> np.ndarray:
    """BM25 (Lucene's variant) over the passages.

    Shapes: returns [q, depth] positions, best first.
    """
    from pipeline_tasks.retrieval import bm25

    return bm25.top_k(queries, passages, depth)[0]


def rank_untrained(size: str, queries: list[str], passages: list[str], depth: int) -> np.ndarray:
    """Mean-pooled vectors of the backbone as it came, without instructions.

    Shapes: returns [q, depth] positions, best first.
    """
    name = backbone(size).name
    folder(name)
    encoder = open_encoder(name)
    return top_k(encoder.encode(queries), encoder.encode(passages), depth)[0]


def rank_model(
    version: Version, queries: list[str], intents: list[str], passages: list[str], depth: int, scratch: Path
) -> np.ndarray:
    """A trained version, asked as it was trained: with instructions after fine-tuning, without after pre-training.

    Shapes: returns [q, depth] positions, best first.
    """
    manifest = version.manifest
    target = version.lay_out(scratch / manifest.dataset / manifest.id)
    encoder = load_encoder(target, settings().cache, settings().threads)
    instructed = manifest.dataset.endswith("/finetune")
    asked = encoder.encode_queries(queries, intents) if instructed else encoder.encode(queries)
    return top_k(asked, encoder.encode_passages(passages), depth)[0]
