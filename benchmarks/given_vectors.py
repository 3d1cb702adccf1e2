"""The same mining task for us and for sentence-transformers: queries, passages and their vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.vectors import DIM, unit_vectors

ALPHA, K, DEPTH = 0.5, 9, 200


@dataclass(frozen=True)
class Task:
    """Queries near their positive among passages; query ``i`` belongs to passage ``i``."""

    queries: np.ndarray
    passages: np.ndarray

    @classmethod
    def plant(cls, n_queries: int, n_passages: int) -> Task:
        """A query is its positive, a fifth of another passage, and noise."""
        passages = unit_vectors(n_passages, 0, max(1, n_passages // 400))
        near = np.random.default_rng(3).permutation(n_passages)[:n_queries]
        queries = passages[:n_queries] + 0.2 * passages[near] + 0.9 * unit_vectors(n_queries, 1)
        return cls(queries / np.linalg.norm(queries, axis=1, keepdims=True), passages)

    def texts(self) -> tuple[list[str], list[str]]:
        """A text for each query and passage."""
        return [f"q{i}" for i in range(len(self.queries))], [f"p{i}" for i in range(len(self.passages))]


@dataclass(frozen=True)
class Differing:
    """How two lists of negatives of the same queries differ.

    Attributes:
        rows: queries with any difference.
        beyond: those that differ by more than :func:`rounding`: in order, or at the limit.
        inexact: those whose first list is not what the rule gives on cosines computed in float64.
        farthest: largest difference of two cosines in one place.
    """

    rows: int
    beyond: int
    inexact: int
    farthest: float


def rounding(task: Task, rows: list[int], n_more: int = 64) -> float:
    """How far apart cosines can be that a product in float32 puts in the wrong order: twice its largest error there.

    Measured over all passages for ``rows`` and some more queries, since it grows with the width and the cosine.
    """
    some = np.union1d(rows, np.arange(min(n_more, len(task.queries)))).astype(int)
    exact = task.queries[some].astype(np.float64) @ task.passages.astype(np.float64).T
    return 2 * float(np.abs(task.queries[some] @ task.passages.T - exact).max())


def differing(task: Task, found: list[list[str]], other: list[list[str]]) -> Differing:
    """Compare our negatives, ``found``, with a peer's, which adds up in float32."""
    rows = [i for i, (a, b) in enumerate(zip(found, other, strict=True)) if a != b]
    near, beyond, inexact, farthest = rounding(task, rows), 0, 0, 0.0
    for row in rows:
        limit = ALPHA * _cosines(task, row, [f"p{row}"])[0]
        a, b = (_cosines(task, row, names) for names in (found[row], other[row]))
        clear_a, clear_b = (cosines[np.abs(cosines - limit) > near] for cosines in (a, b))
        n, at_limit = min(len(clear_a), len(clear_b)), len(a) + len(b) - len(clear_a) - len(clear_b)
        apart = np.abs(clear_a[:n] - clear_b[:n]).max(initial=0)
        beyond += len(a) - len(b) not in range(-at_limit, at_limit + 1) or bool(apart > near)
        inexact += found[row] != exact_row(task, row)
        farthest = max(farthest, float(apart))
    return Differing(len(rows), beyond, inexact, farthest)


def exact_row(task: Task, row: int) -> list[str]:
    """The rule on cosines in float64, rounded once to float32; of equal ones the first passage."""
    cosines = _cosines(task, row, [f"p{i}" for i in range(len(task.passages))]).astype(np.float32)
    best = np.argsort(-cosines, kind="stable")[:DEPTH]
    allowed = best[(cosines[best] < np.float32(ALPHA) * cosines[row]) & (best != row)]
    return [f"p{i}" for i in allowed[:K]]


def _cosines(task: Task, row: int, names: list[str]) -> np.ndarray:
    return task.passages[[int(name[1:]) for name in names]].astype(np.float64) @ task.queries[row].astype(np.float64)


def ours(task: Task) -> list[list[str]]:
    """Search, then the rule of ``mine_negatives`` on its arrays."""
    import pyarrow as pa

    from pipeline_tasks.curation.id_table import HashTable, IdTable, strings, text_hashes
    from pipeline_tasks.curation.mine_negatives import MineNegativesParams
    from pipeline_tasks.curation.negative_kernels import choose, low_enough
    from pipeline_tasks.curation.negative_rules import (
        Candidates,
        Chosen,
        KnownPositives,
        Low,
        MiningQueries,
        Ranked,
        Rules,
        groups,
    )
    from pipeline_tasks.retrieval.scan_kernels import dots
    from pipeline_tasks.retrieval.search import top_k

    n = len(task.queries)
    at, scores = top_k(task.queries, task.passages, DEPTH)
    ids = pa.array(task.texts()[1])
    own = np.arange(n, dtype=np.int32)
    zeros = np.zeros(len(ids), np.int8)
    asked = MiningQueries(
        own, dots(task.queries, task.passages, own.astype(np.int64)[:, None])[:, 0], own, zeros[:n], zeros[:n]
    )
    flat = scores.ravel()
    flat.setflags(write=False)
    ranked = Ranked(strings(ids.take(pa.array(at.ravel()))), flat, np.arange(n + 1) * DEPTH)
    kinds = {np.uint64: len(flat), np.float32: len(flat), np.int32: n, bool: n}
    chosen = Chosen.empty(n, K, 1)
    low = Low(*(np.empty(size, kind) for kind, size in kinds.items()), chosen.skipped)
    rules = Rules.of(MineNegativesParams(alpha=ALPHA, n_negatives=K).values)
    all_of_them = np.full(n, DEPTH, np.int32)
    found = low_enough(own, ranked, asked, IdTable.of(ids.slice(0, n)), rules, all_of_them, low)
    table, _ = HashTable.of(text_hashes(ids))
    ends = np.concatenate([[0], np.cumsum(low.n)])
    candidates = Candidates(table.numbers(low.hashes[:found]), low.scores, ends)
    choose(candidates, asked, KnownPositives(text_hashes(ids), zeros, *groups(own, [own], n)), chosen)
    names = ids.to_pylist()
    return [[names[code] for code in row[:m]] for row, m in zip(chosen.codes.tolist(), chosen.n, strict=True)]


def st_faiss(task: Task) -> list[list[str]]:
    """sentence-transformers with ``use_faiss=True``."""
    return _sentence_transformers(task, use_faiss=True)


def st_torch(task: Task) -> list[list[str]]:
    """sentence-transformers' default."""
    return _sentence_transformers(task, use_faiss=False)


def _sentence_transformers(task: Task, use_faiss: bool) -> list[list[str]]:
    """It counts its 200 beside the positive, we with it."""
    from datasets import Dataset
    from sentence_transformers.util import mine_hard_negatives

    queries, passages = task.texts()
    n = len(queries)
    mined = mine_hard_negatives(
        Dataset.from_dict({"query": queries, "positive": passages[:n]}),
        _model(task),
        corpus=passages,
        range_max=DEPTH - 1,
        relative_margin=1 - ALPHA,
        num_negatives=K,
        output_format="labeled-list",
        use_faiss=use_faiss,
        verbose=False,
    )
    found: dict[str, list[str]] = {query: [] for query in queries}
    for row in mined:
        found[row["query"]] = [text for text, label in zip(row["positive"], row["labels"], strict=True) if not label]
    return [found[query] for query in queries]


def _model(task: Task):
    """A SentenceTransformer without a network: a text names its row."""
    import torch
    from sentence_transformers import SentenceTransformer

    class StoredVectors(SentenceTransformer):
        def encode_query(self, texts: list[str], **_: object) -> np.ndarray:
            return task.queries[[int(text[1:]) for text in texts]]

        def encode_document(self, texts: list[str], **_: object) -> np.ndarray:
            return task.passages[[int(text[1:]) for text in texts]]

        def get_embedding_dimension(self) -> int:
            return DIM

    return StoredVectors(modules=[torch.nn.Identity()], device="cpu", similarity_fn_name="dot")
