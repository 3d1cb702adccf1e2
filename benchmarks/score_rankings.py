"""What an evaluation takes after its search: every measure and a row for each of 9,120 queries.

``python benchmarks/score_rankings.py [--quick]``: the last line is one JSON object. The first 100 of 239,704 passages
are found for given vectors; from there every measure that an evaluation stores is counted, a row a query written as
Parquet, and the difference of two systems said with its interval and p. The peer is a script that gives pytrec_eval
the same rankings for the same measures, and keeps no rows.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytrec_eval
from measure import finish, show
from vectors import unit_vectors

from pipeline_tasks.core.partitions import Partition
from pipeline_tasks.evaluation.evaluate_retriever import grades_of, scored_rows
from pipeline_tasks.evaluation.evaluation_params import MEASURES, EvaluationParams
from pipeline_tasks.evaluation.metrics import score
from pipeline_tasks.evaluation.statistics import compare
from pipeline_tasks.retrieval.search import top_k

DEPTH, CLUSTERS, INTENTS = 100, 2_000, 6
PLAIN = {"ndcg_cut.10", "map_cut.10", "recall.10", "success.10", "recip_rank"}


def judged(n_queries: int, n_passages: int, seed: int = 0) -> pa.Table:
    """Queries of six intents with three judged passages each, graded 2, 1 and 0."""
    chosen = np.random.default_rng(seed).integers(n_passages // 3, size=n_queries) * 3
    columns = {
        "query_id": [f"q{row}" for row in range(n_queries)],
        "intent": [f"intent-{row % INTENTS}" for row in range(n_queries)],
        "query": ["what to do before, during and after it"] * n_queries,
        "passage_ids": [[f"p{place + n}" for n in range(3)] for place in chosen],
        "grades": [[2, 1, 0]] * n_queries,
    }
    return pa.table(columns)


def searched(queries: pa.Table, n_passages: int, noise: float) -> list[list[str]]:
    """Ids of the first 100 passages for vectors that lie near those of each query's best passage."""
    passages = unit_vectors(n_passages, 0, CLUSTERS)
    best = [int(ids[0][1:]) for ids in queries["passage_ids"].to_pylist()]
    drawn = np.random.default_rng(1).standard_normal((len(best), passages.shape[1]), dtype=np.float32)
    asked = passages[best] + noise * drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    found, _ = top_k(asked / np.linalg.norm(asked, axis=1, keepdims=True), passages, DEPTH)
    return [[f"p{place}" for place in row] for row in found.tolist()]


def evaluated(queries: pa.Table, found: list[list[str]], file: Path) -> dict[str, np.ndarray]:
    """The values of every measure, after the rows are on disk."""
    values = score(found, grades_of(queries), MEASURES)
    about = {"name": "planted", "version": None, "kept": EvaluationParams.model_fields["kept"].default}
    pq.write_table(scored_rows(Partition({}, {}, about), found, queries, values), file)
    return values


def by_pytrec_eval(queries: pa.Table, found: list[list[str]]) -> float:
    """The mean NDCG@10 of a plain script."""
    names = queries["query_id"].to_pylist()
    qrels = dict(zip(names, grades_of(queries), strict=True))
    runs = {n: {i: float(-rank) for rank, i in enumerate(ids)} for n, ids in zip(names, found, strict=True)}
    values = pytrec_eval.RelevanceEvaluator(qrels, PLAIN).evaluate(runs)
    return float(np.mean([row["ndcg_cut_10"] for row in values.values()]))


def main() -> None:
    """Search, score, compare; print seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="500 queries, 10,000 passages")
    n_queries, n_passages = (500, 10_000) if parser.parse_args().quick else (9_120, 239_704)
    queries = judged(n_queries, n_passages)
    clock = [time.perf_counter()]
    near, far = (searched(queries, n_passages, noise) for noise in (4.0, 5.0))
    clock.append(time.perf_counter())
    with tempfile.TemporaryDirectory() as folder:
        values = evaluated(queries, near, Path(folder) / "rows.parquet")
        clock.append(time.perf_counter())
        peer = by_pytrec_eval(queries, near)
        clock.append(time.perf_counter())
        others = evaluated(queries, far, Path(folder) / "others.parquet")
    if abs(float(values["ndcg@10"].mean()) - peer) > 1e-9:
        raise SystemExit(f"NDCG@10 differs: {values['ndcg@10'].mean()} and {peer} by pytrec_eval")
    clock.append(time.perf_counter())
    found = compare(values["ndcg@10"], others["ndcg@10"], queries["intent"].to_pylist())
    clock.append(time.perf_counter())
    search, ours, plain, _, luck = np.diff(clock)
    rows = [
        ["two searches", search],
        [f"{len(MEASURES)} measures and {n_queries:,} rows", ours],
        [f"pytrec_eval alone, {len(PLAIN)} measures, no rows", plain],
        [f"difference {found.gain:+.3f}, its interval and p", luck],
    ]
    show(f"{n_queries:,} queries x top {DEPTH} of {n_passages:,} passages", ("what", "seconds"), rows)
    figures = {"queries": n_queries, "passages": n_passages, "search_s": search, "scores_and_rows_s": ours}
    finish(figures | {"ratio_to_pytrec_eval": plain / ours, "difference_s": luck})


if __name__ == "__main__":
    main()
