"""Whoever judged the labels, the DAGs read what belongs to them."""

import numpy as np
import pytest
from airflow.dag_processing.dagbag import DagBag
from foundry_airflow.paths import follow

from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.curation.mine_negatives import mine_negatives
from pipeline_tasks.curation.mutual_agreement import mutual_agreement
from pipeline_tasks.datasets import JUDGED_QUERIES, PAIR_EMBEDDINGS, PAIRS, PASSAGE_EMBEDDINGS, PASSAGES
from pipeline_tasks.evaluation.evaluate_retriever import evaluate_retriever
from pipeline_tasks.retrieval.rank_bm25 import rank_bm25
from pipeline_tasks.retrieval.rank_passages import rank_passages
from tests.stores import go, put, rows

MODEL = "all-minilm-l6-v2"
WORDS = ("flood", "tornado", "smoke", "drought", "tremor", "landslide")


@pytest.fixture
def store(store_folder) -> LocalStore:
    """Six passages, a query for each, rankings by BM25 and by a model."""
    store = LocalStore(store_folder)
    vectors = np.eye(len(WORDS), dtype=np.float32).tolist()
    put(
        store,
        PASSAGES,
        [{"passage_id": f"p-{w}", "doc_id": w, "text": f"warning of a {w}", "split": "train"} for w in WORDS],
    )
    query = [{"query_id": f"q-{w}", "passage_id": f"p-{w}", "doc_id": w, "intent": "qa"} for w in WORDS]
    positive = [{"positive_id": f"g-{w}"} for w in WORDS]
    texts = [
        {"query": f"warning of a {w}?", "positive": f"the {w} comes", "passage": "", "split": "train", "origin": "dm"}
        for w in WORDS
    ]
    put(store, PAIRS, [q | p | t for q, p, t in zip(query, positive, texts, strict=True)], dataset="mtp")
    places = [{"passage_id": f"p-{w}", "doc_id": w, "embedding": v} for w, v in zip(WORDS, vectors, strict=True)]
    put(store, PASSAGE_EMBEDDINGS, places, dataset=f"embeddings/{MODEL}")
    asked = [
        q | p | {"query_embedding": v, "positive_embedding": v}
        for q, p, v in zip(query, positive, vectors, strict=True)
    ]
    put(store, PAIR_EMBEDDINGS, asked, dataset=f"query_embeddings/{MODEL}")
    go(store, rank_bm25)
    go(store, rank_passages, model=MODEL)
    return store


@pytest.mark.parametrize("dag_id", ["train_retriever", "distill_retriever", "evaluate_retriever", "build_level"])
@pytest.mark.parametrize("judges", [["bm25"], ["bm25", MODEL], [MODEL]])
def test_a_dag_reads_what_is_behind_the_labels(store, root, dag_id, judges):
    go(store, mutual_agreement, models=judges)
    bag = DagBag(root / "dags" / f"{dag_id}.py")
    paths = bag.dags[dag_id].get_task("versions").paths
    read = {key: path(store) if callable(path) else follow(store, path) for key, path in paths.items()}
    if "rankings" in read:
        assert [ref.partition("@")[0] for ref in read["rankings"]] == [f"rankings/{judges[0]}"]
        given = {name: read[name] for name in ("labelled", "pairs", "passages", "rankings")}
        go(store, mine_negatives, given, alpha=0.95, n_negatives=2)
        assert len(rows(store, "mtt/0.95")) == len(WORDS)
    if "embeddings" in read:
        models = [judge for judge in judges if judge != "bm25"]
        assert [ref.partition("@")[0] for ref in read["embeddings"]] == [f"embeddings/{model}" for model in models]
        given = {name: read[name] for name in ("passages", "embeddings")}
        queries = put(store, JUDGED_QUERIES, [{"query_id": "q"}], dataset="judged/heldout")
        job = plan(store, evaluate_retriever, {}, given | {"queries": [str(queries)], "models": []})
        assert len(job.input_names.get("embeddings", [])) == len(models)
