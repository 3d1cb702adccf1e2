"""Exact top-200 of few queries over few passages beside FAISS and torch, and the first search of a process.

``python benchmarks/small_searches.py [--quick]``: the last line is one JSON object. That is the work of a refresh. The
methods take turns in one process a size; a turn is as many searches as fit into a fifth of a second, and figures are
those of the median turn, in seconds of the wall and of the processor. The first search is in processes of their own,
imports included.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.measure import finish, measured, show, spread, turns  # noqa: E402
from benchmarks.search import CLUSTERS, EXACT, K  # noqa: E402
from benchmarks.vectors import unit_vectors  # noqa: E402

PASSAGES, QUERIES = (2_000, 20_000, 100_000), (16, 256, 2_048)
FIRST, TURN_S = (16, 2_000), 0.2
Seconds = tuple[float, float]


def compare(n_queries: int, n_passages: int) -> dict[str, list[Seconds]]:
    """Seconds of every turn of every method, of the wall and of the processor."""
    import faiss
    import torch

    from pipeline_tasks.core.settings import settings

    faiss.omp_set_num_threads(settings().threads)
    torch.set_num_threads(settings().threads)
    vectors = unit_vectors(n_queries, 1, CLUSTERS), unit_vectors(n_passages, 0, CLUSTERS)
    searches = {}
    for method, search in EXACT.items():
        search(*vectors)
        searches[method] = max(1, int(TURN_S / timed(method, vectors, 1)[0]))
    return turns(EXACT, lambda method: timed(method, vectors, searches[method]))


def timed(method: str, vectors: tuple[np.ndarray, np.ndarray], n: int) -> Seconds:
    """Seconds of one of ``n`` searches, of the wall and of the processor."""
    began = time.perf_counter(), time.process_time()
    for _ in range(n):
        EXACT[method](*vectors)
    return (time.perf_counter() - began[0]) / n, (time.process_time() - began[1]) / n


def first(method: str) -> float:
    """Seconds of the processor for the first search of this process."""
    vectors = [np.random.default_rng(n).standard_normal((n, 384), dtype=np.float32) for n in FIRST]
    began = time.process_time()
    EXACT[method](*vectors)
    return time.process_time() - began


def main() -> None:
    """Print both tables and the line of JSON."""
    passages, queries = (PASSAGES[:1], QUERIES[:2]) if "--quick" in sys.argv else (PASSAGES, QUERIES)
    sizes = [(q, n) for n in passages for q in queries]
    rows, ratios, spreads = [], {}, {}
    for q, n in sizes:
        took = measured(compare, q, n).value
        wall, processor = ({m: statistics.median(turn[i] for turn in took[m]) for m in EXACT} for i in (0, 1))
        apart = {m: max(map(spread, zip(*took[m], strict=True))) for m in EXACT}
        rows += [(q, n, m, 1000 * wall[m], 1000 * processor[m], apart[m]) for m in EXACT]
        of_peers = (min(of[m] for m in EXACT if m != "ours") / of["ours"] for of in (wall, processor))
        ratios[f"{q} x {n}"] = [round(ratio, 2) for ratio in of_peers]
        spreads |= {f"{m} {q} x {n}": apart[m] for m in EXACT}
    columns = ("queries", "passages", "method", "ms", "ms of the processor", "spread")
    show(f"top {K}, 384 numbers a vector", columns, rows)
    firsts = turns(EXACT, lambda method: measured(first, method).value)
    spreads |= {f"{m} first": spread(firsts[m]) for m in EXACT}
    cold = {m: statistics.median(firsts[m]) for m in EXACT}
    rows = [(m, cold[m], spreads[f"{m} first"]) for m in EXACT]
    show("first search of a process, 16 x 2,000", ("method", "seconds of the processor", "spread"), rows)
    finish({"ratio_wall_and_processor": ratios, "first_search_s": {m: round(s, 2) for m, s in cold.items()}}, spreads)


if __name__ == "__main__":
    main()
