"""Exact top-200 beside FAISS flat, ``faiss.knn`` and torch, and IVF and HNSW at the recall they are tuned to.

``python benchmarks/search.py [--quick]``: the last line is one JSON object. 2,000 queries over 20,000 to 500,000
vectors of 384 numbers in clusters; ``benchmarks/small_searches.py`` has fewer. Timed is the whole search with the
filling of an index, the best of three turns, in each of which every exact method has its go. A turn is a process of
its own, warmed by a small search; memory is the peak over what it held with the vectors loaded and everything warm.
Where there is a graphics card, ours on it takes one turn.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.measure import Measured, finish, measured, show, spread, turns  # noqa: E402
from benchmarks.vectors import DIM, unit_vectors  # noqa: E402
from pipeline_tasks.encoders.devices import devices_of  # noqa: E402

K, QUERIES, CLUSTERS = 200, 2000, 1000
Searched = tuple[np.ndarray, dict[str, float]]


def ours(queries: np.ndarray, passages: np.ndarray) -> Searched:
    """Our search, in the precision that is faster here."""
    from pipeline_tasks.retrieval.search import top_k

    return top_k(queries, passages, K)[0], {}


def faiss_flat(queries: np.ndarray, passages: np.ndarray) -> Searched:
    """IndexFlatIP; filling it is part of the time."""
    import faiss

    index = faiss.IndexFlatIP(passages.shape[1])
    index.add(passages)
    return index.search(queries, K)[1], {}


def faiss_knn(queries: np.ndarray, passages: np.ndarray) -> Searched:
    """No index, no copy."""
    import faiss

    return faiss.knn(queries, passages, K, metric=faiss.METRIC_INNER_PRODUCT)[1], {}


def torch_topk(queries: np.ndarray, passages: np.ndarray) -> Searched:
    """One product and one topk per 256 queries, so that it fits into memory at every size."""
    import torch

    p = torch.from_numpy(passages)
    blocks = torch.from_numpy(queries).split(256)
    return torch.cat([(q @ p.T).topk(K).indices for q in blocks]).numpy(), {}


def ivf(queries: np.ndarray, passages: np.ndarray) -> Searched:
    """FAISS IVF, tuned to 0.95 on 200 of the queries; training, filling and tuning are part of the time."""
    return _approximate("ivf", queries, passages)


def hnsw(queries: np.ndarray, passages: np.ndarray) -> Searched:
    """FAISS HNSW with 32 links, tuned likewise."""
    return _approximate("hnsw", queries, passages)


def torch_on_cards(queries: np.ndarray, passages: np.ndarray) -> Searched:
    """Ours with ``index=torch``: the vectors go to the cards within the time."""
    from pipeline_tasks.retrieval.torch_search import torch_search

    return torch_search(queries, [(passages, np.arange(len(passages), dtype=np.int32))], K)[0], {}


def _approximate(kind: str, queries: np.ndarray, passages: np.ndarray) -> Searched:
    from pipeline_tasks.retrieval.faiss_search import faiss_search

    shard = (passages, np.arange(len(passages), dtype=np.int32))
    found = faiss_search(queries, [shard], K, kind)
    return found.keys, {"tuned_recall": found.recall, "effort": found.effort}


EXACT: dict[str, Callable[[np.ndarray, np.ndarray], Searched]] = {
    "ours": ours,
    "faiss_flat": faiss_flat,
    "faiss_knn": faiss_knn,
    "torch_topk": torch_topk,
}
ON_CARDS = {"torch_on_cards": torch_on_cards} if devices_of("cuda") else {}
METHODS = EXACT | {"ivf": ivf, "hnsw": hnsw} | ON_CARDS


def prepare(method: str, n: int, n_queries: int) -> tuple[str, np.ndarray, np.ndarray]:
    """The vectors; the method has searched a few of them before."""
    import faiss
    import torch

    from pipeline_tasks.core.settings import settings

    faiss.omp_set_num_threads(settings().threads)
    torch.set_num_threads(settings().threads)
    queries, passages = unit_vectors(n_queries, 1, CLUSTERS), unit_vectors(n, 0, CLUSTERS)
    METHODS[method](queries[:64], passages[:9000])
    return method, queries, passages


def run(given: tuple[str, np.ndarray, np.ndarray]) -> tuple[np.ndarray, dict[str, float], float]:
    """What was found, what it says of itself, and the seconds."""
    method, queries, passages = given
    started = time.perf_counter()
    found, facts = METHODS[method](queries, passages)
    return found, facts, time.perf_counter() - started


def recall(found: np.ndarray, truth: np.ndarray) -> float:
    """Share of the true best that was found."""
    return float(np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(found, truth, strict=True)]))


def all_turns(n: int, n_queries: int) -> dict[str, list[Measured]]:
    """Three turns of every exact method at one size; of the others one, for they take minutes and are in no ratio."""

    def go(method: str) -> Measured:
        return measured(run, method, n, n_queries, prepare=prepare)

    others = [method for method in METHODS if method not in EXACT and (method != "hnsw" or n <= 100_000)]
    return turns(EXACT, go) | {method: [go(method)] for method in others}


def main() -> None:
    """Print the table and the line of JSON."""
    quick = "--quick" in sys.argv
    sizes, n_queries = ((5_000, 10_000, 20_000), 500) if quick else ((20_000, 100_000, 500_000), QUERIES)
    rows, ratios, recalls, peaks, spreads = [], {}, {}, {}, {}
    for n in sizes:
        seconds, found = {}, all_turns(n, n_queries)
        truth = found["ours"][0].value[0]
        for method, got in found.items():
            neighbours, facts, _ = got[0].value
            seconds[method] = min(turn.value[2] for turn in got)
            recalls[method, n], peaks[method, n] = recall(neighbours, truth), max(turn.added_mib for turn in got)
            rate = n_queries * n * DIM * 2 / seconds[method] / 1e9
            facts = (peaks[method, n], recalls[method, n], facts.get("effort", ""))
            apart = spread(turn.value[2] for turn in got) if method in EXACT else ""
            rows.append((n, method, seconds[method], apart, rate, *facts))
            spreads |= {f"{method} {n}": apart} if method in EXACT else {}
        ratios[n] = min(seconds[m] for m in EXACT if m != "ours") / seconds["ours"]
    show(
        f"top {K} of {n_queries} queries, {DIM} numbers a vector",
        ("passages", "method", "seconds", "spread", "GFLOP/s", "added MiB", "recall", "effort"),
        rows,
    )
    last = sizes[-1]
    finish(
        {
            "ratio_to_best_exact": {str(n): round(ratio, 2) for n, ratio in ratios.items()},
            "recall": {m: round(recalls[m, sizes[1]], 3) for m in METHODS if m != "ours"},
            "peak_mib": round(peaks["ours", last]),
            "sizes": list(sizes),
        },
        spreads,
    )


if __name__ == "__main__":
    main()
