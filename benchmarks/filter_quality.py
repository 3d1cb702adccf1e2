"""What each filter of positives lets through: real pairs, one in five with a wrong positive, judged by real models.

``precision``: kept queries whose label is a judged answer. ``recall``: pairs that came with a right positive and leave
with a right one. ``yield``: queries kept. A wrong pair may leave with a right label, because mutual agreement chooses
the positive anew; the table shows how many do.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from measure import finish, show
from planted_pairs import Planted, plant

from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.ids import digest, short_id
from pipeline_tasks.core.manifest import Manifest
from pipeline_tasks.core.parts import write_rows
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.schema import RowSchema
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version, commit, point
from pipeline_tasks.datasets import PAIR_EMBEDDINGS, PAIRS, PASSAGE_EMBEDDINGS, PASSAGES

MODELS = ("bge-small-en-v1.5", "all-mpnet-base-v2", "all-minilm-l6-v2")
STRATEGIES = {
    "none": {"strategy": "none"},
    "consistency": {"strategy": "consistency"},
    "mutual_1": {"strategy": "mutual", "top_n": 1},
    "mutual_2": {"strategy": "mutual", "top_n": 2},
    "mutual_3": {"strategy": "mutual", "top_n": 3},
    "identical_1": {"strategy": "identical", "top_n": 1},
    "identical_2": {"strategy": "identical", "top_n": 2},
    "identical_3": {"strategy": "identical", "top_n": 3},
}


def embedded(model: str, texts: Sequence[str], intents: Sequence[str] | None, cache: Path) -> np.ndarray:
    """Vectors of queries (with their intents) or passages, from ``cache`` where they were made before."""
    file = cache / f"{model}-{digest(list(texts), list(intents or []))[:16]}.npy"
    if not file.exists():
        from pipeline_tasks.retrieval.open_encoder import open_encoder

        encoder = open_encoder(model)
        found = encoder.encode_queries(texts, intents) if intents else encoder.encode_passages(texts)
        cache.mkdir(parents=True, exist_ok=True)
        np.save(file, found)
    return np.load(file)


def put(store: LocalStore, schema: RowSchema, dataset: str, rows: list[dict]) -> None:
    """A dataset of one part; columns that are left out are null."""
    part = write_rows(store, schema.table(rows))
    manifest = Manifest(
        dataset=dataset,
        id=short_id(part.sha256),
        step="planted",
        code_version="1",
        rows_schema=schema.name,
        key=schema.key,
        params={},
        inputs={},
        rows=len(rows),
        parts=[part],
    )
    commit(store, manifest)
    point(store, manifest.ref)


def fill(store: LocalStore, planted: Planted, cache: Path) -> None:
    """Passages, pairs, their embeddings by all models, and the rankings that the pipeline's own step makes of them."""
    ids, given = planted.passage_ids, planted.given.tolist()
    names = [f"q{i}" for i in range(len(given))]
    texts = zip(ids, planted.passages, strict=True)
    put(store, PASSAGES, "passages", [{"passage_id": name, "text": text, "split": "train"} for name, text in texts])
    pairs = [
        {
            "query_id": name,
            "query": query,
            "intent": intent,
            "passage_id": ids[at],
            "positive_id": ids[at],
            "positive": planted.passages[at],
            "split": "train",
            "origin": "dm",
        }
        for name, query, intent, at in zip(names, planted.queries, planted.intents, given, strict=True)
    ]
    put(store, PAIRS, "mtp", pairs)
    for model in MODELS:
        queries = embedded(model, planted.queries, planted.intents, cache)
        passages = embedded(model, planted.passages, None, cache)
        keys = [{"passage_id": name} for name in ids]
        put(store, PASSAGE_EMBEDDINGS, f"embeddings/{model}", _with(keys, embedding=passages))
        asked = [{"query_id": row["query_id"], "positive_id": row["positive_id"]} for row in pairs]
        vectors = _with(asked, query_embedding=queries, positive_embedding=passages[given])
        put(store, PAIR_EMBEDDINGS, f"query_embeddings/{model}", vectors)
        run_job(store, plan(store, get_step("rank_passages"), {"model": model}))
    run_job(store, plan(store, get_step("rank_bm25"), {}))


def _with(rows: list[dict], **columns: np.ndarray) -> list[dict]:
    return [row | {name: values[i] for name, values in columns.items()} for i, row in enumerate(rows)]


def judged(store: LocalStore, planted: Planted, params: dict) -> dict[str, float]:
    """Precision, recall and yield of one strategy, and the wrong pairs that it gave a right label."""
    outcome = run_job(store, plan(store, get_step("mutual_agreement"), {"models": MODELS} | params))
    place = {name: i for i, name in enumerate(planted.passage_ids)}
    rows = Version.open(store, outcome.ref).table(["query_id", "positive_id"])
    kept = np.array([int(name[1:]) for name in rows["query_id"].to_pylist()], np.int64)
    label = [place[name] for name in rows["positive_id"].to_pylist()]
    right = np.array([at in planted.right[row] for row, at in zip(kept, label, strict=True)], bool)
    return {
        "precision": float(right.mean()) if len(right) else 0.0,
        "recall": float((right & ~planted.wrong[kept]).sum() / (~planted.wrong).sum()),
        "yield": len(kept) / len(planted.queries),
        "mended": float((right & planted.wrong[kept]).sum() / planted.wrong.sum()),
    }


def main() -> None:
    """Plant, rank, filter; a table and the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200 pairs")
    parser.add_argument("--pairs", type=int, default=2000, help="number of pairs")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"), help="folder of the judged sets")
    parser.add_argument("--cache", type=Path, default=Path("benchmarks/.cache"), help="where vectors are kept")
    options = parser.parse_args()
    planted = plant(options.data, 200 if options.quick else options.pairs)
    with tempfile.TemporaryDirectory() as folder:
        store = LocalStore(Path(folder))
        fill(store, planted, options.cache)
        found = {name: judged(store, planted, params) for name, params in STRATEGIES.items()}
        others = {
            "consistency, BM25": {"strategy": "consistency", "models": ("bm25",)},
            "mutual_2, BM25 for MiniLM": {"strategy": "mutual", "models": (*MODELS[:2], "bm25")},
        }
        beside = {name: judged(store, planted, params) for name, params in others.items()}
    columns = ("strategy", "precision", "recall", "yield", "wrong pairs mended")
    n_wrong = int(planted.wrong.sum())
    title = f"{len(planted.queries):,} pairs, {n_wrong:,} wrong, over {len(planted.passages):,} passages"
    show(title, columns, [(name, *scores.values()) for name, scores in (found | beside).items()])
    keys = ("precision", "recall", "yield")
    finish({name: {key: round(scores[key], 4) for key in keys} for name, scores in found.items()})


if __name__ == "__main__":
    main()
