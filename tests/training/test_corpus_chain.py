"""From passages to an adapted embedder without an LLM: done once, and a new document pays for its own queries."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.runner import Outcome
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.curation.sample_rank_lists import sample_rank_lists
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.retrieval.rank_bm25 import rank_bm25
from pipeline_tasks.synthesis.extract_queries import extract_queries
from pipeline_tasks.training.adapt_to_corpus import adapt_to_corpus
from pipeline_tasks.training.model.export import export
from tests.shapes import TOPICS
from tests.stores import go, put, rows
from tests.training.conftest import passage

SMALL = {"size": "22m", "max_query_length": 32, "max_passage_length": 32, "device": "cpu", "evals_per_epoch": 1}


def document(number: int, split: str) -> list[dict]:
    """A document's passages, each with a title and a sentence of its own words."""
    texts = [passage(topic, number) for topic in range(len(TOPICS))]
    return [
        {"passage_id": f"p{number}-{n}", "doc_id": f"d{number}", "title": text, "text": f"{text}.", "start_char": 0,
         "split": split}
        for n, text in enumerate(texts)
    ]  # fmt: skip


def chain(store: LocalStore, embedder: Path) -> list[Outcome]:
    queries = go(store, extract_queries)
    given = {"pairs": [str(queries.ref)], "positives": [str(queries.ref)]}
    ranked = go(store, rank_bm25, given, depth=12, k1=1.2)
    lists = go(store, sample_rank_lists, k=12, m=4, first=0)
    return [queries, ranked, lists, go(store, adapt_to_corpus, backbone=str(embedder), **SMALL)]


def test_a_second_run_makes_nothing_and_a_new_document_is_asked_about_alone(tmp_path, tiny_bert):
    store, embedder = LocalStore(tmp_path / "store"), tmp_path / "embedder"
    export(load(tiny_bert), embedder, card={"name": "Mine", "summary": ""}, layout=Layout("mean", 32))
    documents = [document(0, "train"), document(1, "dev")]
    put(store, PASSAGES, *documents)
    first = chain(store, embedder)
    again = chain(store, embedder)
    assert [made.ref for made in again] == [made.ref for made in first]
    assert not any(made.counters.get("parts_built") or made.counters.get("optimiser_steps") for made in again)
    deep = r"k=13 of rankings/bm25@\w+, which has 12 ranks: rank with depth=13, and name it with --input rankings="
    with pytest.raises(InputError, match=deep):
        go(store, sample_rank_lists, k=13)
    lists = rows(store, "rank_lists")
    assert {row["split"] for row in lists} == {"train", "dev"}
    for row in lists:
        mine = {"train": "p0-", "dev": "p1-"}[row["split"]]
        assert all(name.startswith(mine) for name in row["passage_ids"]), "no passage of another side"

    put(store, PASSAGES, *documents, document(2, "train"))
    queries, ranked, drawn, adapted = chain(store, embedder)
    assert (queries.counters["parts_built"], queries.counters["parts_reused"]) == (1, 2)
    assert ranked.counters["parts_built"] == drawn.counters["parts_built"] == 3, "words count otherwise in more text"
    assert adapted.counters["lists"] == 2 * first[-1].counters["lists"]


def test_a_ranking_that_was_there_before_is_named_and_a_refusal_says_so(tmp_path):
    """It does not become the latest again, however often it is asked for."""
    store = LocalStore(tmp_path / "store")
    put(store, PASSAGES, document(0, "train"), document(1, "dev"))
    fewer, queries = (go(store, extract_queries, per_passage=n).ref for n in (1, 2))
    mine, _, again = (
        go(store, rank_bm25, {"pairs": [str(pairs)], "positives": [str(pairs)]}, depth=depth)
        for pairs, depth in ((queries, 12), (fewer, 5), (queries, 12))
    )
    assert again.reused and again.ref == mine.ref
    with pytest.raises(InputError, match="rank with depth=12, and name it with --input rankings=DATASET@ID"):
        go(store, sample_rank_lists, k=12)
    with pytest.raises(InputError, match="for a query that is no pair: .* rank again, and name it with --input rank"):
        go(store, sample_rank_lists, {"rankings": [str(mine.ref)], "pairs": [str(fewer)]}, k=12)
    assert go(store, sample_rank_lists, {"rankings": [str(again.ref)]}, k=12, m=4, first=0).ref
