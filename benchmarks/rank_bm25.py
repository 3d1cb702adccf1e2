"""BM25 rankings by shard of passages and block of queries: what the size of a shard does to memory and time.

``python benchmarks/rank_bm25.py [--quick] [--sizes N …] [--shards N …]``: the last line is one JSON object. The step
``rank_bm25`` runs in one process over passages of 90 words, which come as often as words do, and 4,096 queries. Every
way has to make the same parts.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.measure import finish, measured, show  # noqa: E402
from benchmarks.ranked_store import names_of, put_blocks  # noqa: E402

QUERIES, PART, WORDS, VOCABULARY = 4096, 2000, 90, 200_000
SIZES, QUICK, SHARDS = (50_000, 100_000, 200_000), (5_000, 10_000), (200_000, 50_000, 25_000)


def plant(root: Path, n_passages: int) -> None:
    """Passages, and pairs whose queries are three words."""
    from pipeline_tasks.core.store import LocalStore
    from pipeline_tasks.datasets import PAIRS, PASSAGES

    store, chance = LocalStore(root), np.random.default_rng(n_passages)
    shares = 1 / np.arange(1, VOCABULARY + 1)
    chances = np.cumsum(shares / shares.sum())

    def texts(n: int, n_words: int) -> list[str]:
        found = np.searchsorted(chances, chance.random((n, n_words)))
        return [" ".join(f"w{word}" for word in row) for row in found.tolist()]

    def blocks(names: list[str]) -> Iterator[list[str]]:
        return (names[at : at + PART] for at in range(0, len(names), PART))

    put_blocks(store, PASSAGES, "passages", (
        {"passage_id": some, "text": texts(len(some), WORDS), "split": "train"}
        for some in blocks(names_of(n_passages, 1))
    ))  # fmt: skip
    queries, positives = names_of(QUERIES, 2), iter(names_of(QUERIES, 3))
    put_blocks(store, PAIRS, "mtp", (
        {"query_id": some, "query": texts(len(some), 3), "positive": texts(len(some), WORDS), "intent": "qa",
         "positive_id": [next(positives) for _ in some]} for some in blocks(queries)
    ))  # fmt: skip


def rank(root: str, values: dict) -> str:
    """A digest of the parts that the step makes."""
    from pipeline_tasks.core.execution.runner import run_job
    from pipeline_tasks.core.plan import plan as planned
    from pipeline_tasks.core.registry import get_step
    from pipeline_tasks.core.store import LocalStore
    from pipeline_tasks.core.versions import load_manifest

    store = LocalStore(Path(root))
    made = run_job(store, planned(store, get_step("rank_bm25"), values, {})).ref
    parts = load_manifest(store, made).parts if made else []
    return hashlib.sha256(json.dumps([part.sha256 for part in parts]).encode()).hexdigest()[:16]


def main() -> None:
    """Print the table and the line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help=f"sizes {QUICK}")
    parser.add_argument("--sizes", type=int, nargs="+", help=f"numbers of passages, {SIZES} where not given")
    parser.add_argument("--shards", type=int, nargs="+", default=SHARDS, help="passages of a shard")
    arguments = parser.parse_args()
    sizes, rows, peaks = arguments.sizes or (QUICK if arguments.quick else SIZES), [], {}
    for n in sizes:
        made = set()
        for shard in arguments.shards:
            with tempfile.TemporaryDirectory() as root:
                plant(Path(root), n)
                found = measured(rank, root, {"shard_passages": shard})
            made.add(found.value)
            peaks[shard] = found.peak_mib
            rows.append((n, shard, found.seconds, found.peak_mib, found.added_mib, found.value))
        assert len(made) == 1, f"shards changed the rankings of {n:,} passages"
    columns = ("passages", "passages of a shard", "seconds", "peak MiB", "of it the work's", "parts")
    show(f"rank_bm25, {QUERIES:,} queries, one process", columns, rows)
    finish(
        {"passages": sizes[-1], "peak_mib": {shard: round(peak) for shard, peak in peaks.items()}, "same_parts": True}
    )


if __name__ == "__main__":
    main()
