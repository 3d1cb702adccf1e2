"""Rankings and negatives over a million passages as the pipeline runs them: memory, and time for 15 million queries.

``python benchmarks/million_passages.py [--quick]``: the last line is one JSON object. The steps ``rank_passages`` and
``mine_negatives`` run one after the other in one process, over a store with 384 numbers a passage. The vectors are read
once a process, however many queries it ranks, so that reading is told apart and does not count for the 15 million;
imports and compiled code are warm.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.measure import finish, measured, show  # noqa: E402
from benchmarks.ranked_store import names_of, put_blocks, texts_of  # noqa: E402
from benchmarks.vectors import DIM, unit_vectors  # noqa: E402

MODEL, QUERIES, PART, ALPHA = "all-minilm-l6-v2", 2048, 20_000, 0.75


def plant(root: Path, n_passages: int) -> None:
    """Embeddings of passages and of 2,048 pairs, their texts, and labels."""
    from pipeline_tasks.core.store import LocalStore
    from pipeline_tasks.core.vectors import lists
    from pipeline_tasks.datasets import LABELLED, PAIR_EMBEDDINGS, PAIRS, PASSAGE_EMBEDDINGS, PASSAGES

    store = LocalStore(root)
    ids = names_of(n_passages, 1)
    blocks = [(at, ids[at : at + PART]) for at in range(0, n_passages, PART)]
    put_blocks(store, PASSAGES, "passages", (
        {"passage_id": b, "text": texts_of(b, 90), "split": "train"} for _, b in blocks
    ))  # fmt: skip
    put_blocks(store, PASSAGE_EMBEDDINGS, f"embeddings/{MODEL}", (
        {"passage_id": b, "embedding": lists(unit_vectors(len(b), at, 1000))} for at, b in blocks
    ))  # fmt: skip
    queries, own = names_of(QUERIES, 2), names_of(QUERIES, 3)
    positive = unit_vectors(QUERIES, 4, 1000)
    vectors = positive + 0.9 * unit_vectors(QUERIES, 5)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    put_blocks(store, PAIR_EMBEDDINGS, f"query_embeddings/{MODEL}", iter([{
        "query_id": queries, "intent": "qa", "positive_id": own, "query_embedding": lists(vectors),
        "positive_embedding": lists(positive),
    }]))  # fmt: skip
    shared = {"query_id": queries, "query": queries, "intent": "qa", "positive_id": own, "split": "train"}
    put_blocks(store, PAIRS, "mtp", iter([shared | {"positive": texts_of(own, 90), "passage_id": ids[:QUERIES]}]))
    votes = pa.array([[]] * QUERIES, LABELLED.arrow.field("votes").type)
    label = {"source_passage_id": ids[:QUERIES], "best_model": MODEL, "votes": votes}
    put_blocks(store, LABELLED, "labelled", iter([shared | label]))


def run(root: str) -> dict[str, float]:
    """Seconds of reading the vectors and of both steps, and the negatives found."""
    from pipeline_tasks.core.manifest import Ref
    from pipeline_tasks.core.plan import plan as planned
    from pipeline_tasks.core.registry import get_step
    from pipeline_tasks.core.runner import run_job
    from pipeline_tasks.core.store import LocalStore
    from pipeline_tasks.core.versions import Version
    from pipeline_tasks.retrieval.corpus import open_corpora
    from pipeline_tasks.retrieval.search import top_k

    top_k(unit_vectors(100, 6), unit_vectors(1000, 7), 10)
    store = LocalStore(Path(root))
    started = time.perf_counter()
    refs = (str(Version.open(store, Ref(dataset=f"{name}/{MODEL}", version="latest")).manifest.ref)
            for name in ("embeddings", "query_embeddings"))  # fmt: skip
    open_corpora(store, *refs)
    found = {"reading": time.perf_counter() - started}
    for name, params in (("rank_passages", {"model": MODEL}), ("mine_negatives", {"alpha": ALPHA, "models": (MODEL,)})):
        started = time.perf_counter()
        counters = run_job(store, planned(store, get_step(name), params, {})).counters
        found[name] = time.perf_counter() - started
    return found | {"negatives": counters["negatives"]}


def main() -> None:
    """Print the table and the line of JSON."""
    sizes = (5_000, 10_000, 20_000) if "--quick" in sys.argv else (100_000, 300_000, 1_000_000)
    rows = []
    for n in sizes:
        with tempfile.TemporaryDirectory() as root:
            plant(Path(root), n)
            got = measured(run, root)
        rank, mine = got.value["rank_passages"], got.value["mine_negatives"]
        rate = QUERIES * n * DIM * 2 / rank / 1e9
        days = rank / QUERIES * 15e6 / 86400
        rows.append((n, got.value["reading"], rank, rate, mine, got.value["negatives"], got.peak_mib, days))
    show(
        f"{QUERIES} queries, whole steps; vectors are read once a process",
        ("passages", "reading s", "rank_passages s", "GFLOP/s", "mining s", "negatives", "peak MiB", "days for 15M"),
        rows,
    )
    finish(
        {
            "passages": sizes[-1],
            "seconds_reading": round(got.value["reading"], 1),
            "seconds": round(rank, 1),
            "peak_mib": round(got.peak_mib),
            "days_15m_queries": round(days, 1),
        },
        {},
    )


if __name__ == "__main__":
    main()
