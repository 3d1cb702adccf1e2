"""Rankings of the systems under evaluation: one function each, texts in, ranked passage positions out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.versions import Version
from pipeline_tasks.encoders.devices import devices
from pipeline_tasks.models.start import Start
from pipeline_tasks.retrieval.encoders import load_encoder, open_encoder
from pipeline_tasks.retrieval.fusion import fuse
from pipeline_tasks.retrieval.search import top_k

_FUSION = re.compile(r"rrf\(([^()]+)\)")


def rank_bm25(queries: list[str], passages: list[str], depth: int) -> np.ndarray:
    """BM25 (Lucene's variant) over the passages.

    Shapes: returns [q, depth] positions, best first.
    """
    from pipeline_tasks.retrieval import bm25

    return bm25.top_k(queries, passages, depth)[0]


def rank_untrained(
    start: Start, queries: list[str], intents: list[str], passages: list[str], depth: int, scratch: Path
) -> np.ndarray:
    """The model that training starts from as it came, asked as the registry says, or a folder's own files.

    Shapes: returns [q, depth] positions, best first.
    """
    if start.folder is None:
        encoder = open_encoder(start.name)
    else:
        encoder = load_encoder(start.files(scratch / "start"), settings().cache, settings().threads, devices())
    return top_k(encoder.encode_queries(queries, intents), encoder.encode_passages(passages), depth)[0]


def rank_model(
    version: Version, queries: list[str], intents: list[str], passages: list[str], depth: int, scratch: Path
) -> np.ndarray:
    """A trained version, asked as its own files say.

    Shapes: returns [q, depth] positions, best first.
    """
    manifest = version.manifest
    target = version.lay_out(scratch / manifest.dataset / manifest.id)
    encoder = load_encoder(target, settings().cache, settings().threads, devices())
    return top_k(encoder.encode_queries(queries, intents), encoder.encode_passages(passages), depth)[0]


def rank_fused(name: str, ranked: Mapping[str, np.ndarray], depth: int) -> np.ndarray:
    """Reciprocal rank fusion of systems that are ranked, by their names: ``rrf(bm25,all-minilm-l6-v2)``.

    Shapes: ranked [q, any] positions each; returns [q, depth] positions, best first, -1 after the end of a short one.

    Raises:
        InputError: ``name`` is no fusion, or of a system that is not among ``ranked``.
    """
    found = _FUSION.fullmatch(name)
    if not found:
        raise InputError(f"fusion {name!r} cannot be read: write it like rrf(bm25,all-minilm-l6-v2)")
    members = [member.strip() for member in found[1].split(",")]
    unknown = [member for member in members if member not in ranked]
    if unknown:
        raise InputError(f"{name}: no system is called {unknown[0]!r} here; known are {', '.join(ranked)}")
    return fuse([ranked[member] for member in members], depth)[0]
