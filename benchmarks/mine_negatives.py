"""Search and mining beside ``mine_hard_negatives`` of sentence-transformers, on torch and on FAISS.

``python benchmarks/mine_negatives.py [--quick]`` (``make bench-install`` first): the last line is one JSON object.
Vectors are given: the peer gets a SentenceTransformer whose texts are numbers and whose embeddings are rows. The rule
is the same: nine negatives of the best 200 with a cosine below half of the positive's. Timed is from vectors to the
texts of the negatives, the best of three turns, in each of which every method has its go. A turn is a process of its
own, warmed by a small run; memory is the peak over what it held with vectors and texts loaded and everything warm.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.given_vectors import Task, differing, ours, st_faiss, st_torch  # noqa: E402
from benchmarks.measure import finish, measured, show, spread, turns  # noqa: E402

METHODS: dict[str, Callable[[Task], list[list[str]]]] = {"ours": ours, "st_faiss": st_faiss, "st_torch": st_torch}


def prepare(method: str, n_queries: int, n_passages: int) -> tuple[str, Task]:
    """The vectors and texts; the method has mined a little before, and torch is loaded, as large searches load it."""
    import torch  # noqa: F401

    METHODS[method](Task.plant(50, 1000))
    return method, Task.plant(n_queries, n_passages)


def run(given: tuple[str, Task]) -> list[list[str]]:
    """Texts of the negatives of each query."""
    method, task = given
    return METHODS[method](task)


def main() -> None:
    """Print the table and the line of JSON."""
    full = ((500, 5_000), (2_000, 20_000), (5_000, 50_000))
    sizes = ((200, 2_000), (400, 4_000), (800, 8_000)) if "--quick" in sys.argv else full
    rows, seconds, memory, spreads, same = [], {}, {}, {}, True
    for n_queries, n_passages in sizes:
        task = Task.plant(n_queries, n_passages)
        found = turns(METHODS, lambda m, size=(n_queries, n_passages): measured(run, m, *size, prepare=prepare))
        for method, got in found.items():
            differ = differing(task, found["ours"][0].value, got[0].value)
            same = same and differ.beyond == differ.inexact == 0
            seconds[method], memory[method] = min(g.seconds for g in got), max(g.added_mib for g in got)
            spreads[method] = spread(g.seconds for g in got)
            cells = (seconds[method], spreads[method], memory[method], max(g.peak_mib for g in got))
            differences = (differ.rows, f"{differ.farthest:.1e}", differ.beyond, differ.inexact)
            rows.append((n_queries, n_passages, method, *cells, *differences))
    show(
        "search and mining, given embeddings of 384 numbers",
        ("queries", "passages", "method", "seconds", "spread", "added MiB", "peak MiB")
        + ("rows that differ", "by at most", "by more than rounding", "ours not exact"),
        rows,
    )
    finish(
        {
            "ratio_to_st_faiss": round(seconds["st_faiss"] / seconds["ours"], 2),
            "ratio_to_st_torch": round(seconds["st_torch"] / seconds["ours"], 2),
            "memory_ratio": round(memory["ours"] / min(memory["st_faiss"], memory["st_torch"]), 2),
            "same_negatives": same,
        },
        spreads,
    )


if __name__ == "__main__":
    main()
