"""Pairs of different origins: each is ranked in its own corpus, and no passage of another is ever its negative."""

from __future__ import annotations

import sys
from functools import wraps
from pathlib import Path

import numpy as np
import pytest

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.curation.mine_negatives import mine_negatives
from pipeline_tasks.curation.mutual_agreement import mutual_agreement
from pipeline_tasks.datasets import PAIR_EMBEDDINGS, PAIRS, PASSAGE_EMBEDDINGS, PASSAGES
from pipeline_tasks.retrieval.rank_bm25 import rank_bm25
from pipeline_tasks.retrieval.rank_passages import rank_passages
from tests.stores import go, put, reasons, rows

MODEL = "all-minilm-l6-v2"
OWN = {"dm": {"p", "dm"}, "faq": {"p", "faq"}, "gd/squad": {"gd/squad"}, "gd/quora": {"gd/quora"}}
"""Origin -> what the ids of passages in its corpus begin with; pairs of ``faq`` name a passage of ours, or none."""
N_PAIRS, N_PASSAGES = 6, 30


def pair(origin: str, number: int) -> dict:
    source = {"passage_id": f"p-{number:02}", "doc_id": "d"} if origin == "dm" else {"passage_id": "", "doc_id": ""}
    chance = np.random.default_rng([number, len(origin)])
    query, positive = chance.normal(size=(2, 8)).astype(np.float32)
    texts = {"query": f"flood no{number}?", "positive": f"a flood {origin} of no{number}", "passage": ""}
    ids = {"query_id": f"{origin}-q{number}", "positive_id": f"{origin}-{number:02}", "intent": "qa"}
    vectors = {"query_embedding": (query + positive).tolist(), "positive_embedding": positive.tolist()}
    return ids | source | texts | vectors | {"origin": origin, "split": "train"}


def store_of(root: Path, n_passages: int, origins: tuple[str, ...]) -> LocalStore:
    store, chance = LocalStore(root), np.random.default_rng(1)
    passages = [
        {"passage_id": f"p-{i:02}", "doc_id": "d", "text": f"flood text {i}", "split": "train", "embedding": v.tolist()}
        for i, v in enumerate(chance.normal(size=(N_PASSAGES, 8)).astype(np.float32))
    ]
    old, new = passages[:20], passages[20:n_passages]
    pairs = [[pair(origin, number) for number in range(N_PAIRS)] for origin in origins]
    for schema, dataset, parts in (
        (PASSAGES, "", [old, new]),
        (PASSAGE_EMBEDDINGS, f"embeddings/{MODEL}", [old, new]),
        (PAIRS, "mtp", pairs),
        (PAIR_EMBEDDINGS, f"query_embeddings/{MODEL}", pairs),
    ):
        chosen = [[{n: row[n] for n in schema.arrow.names if n in row} for row in part] for part in parts if part]
        put(store, schema, *chosen, dataset=dataset)
    return store


@pytest.mark.parametrize(("ranker", "name"), [(rank_passages, MODEL), (rank_bm25, "bm25")])
def test_general_pairs_are_ranked_and_mined_among_passages_of_their_own_set(tmp_path, ranker, name):
    store = store_of(tmp_path, N_PASSAGES, ("dm", "gd/squad", "gd/quora"))
    go(store, ranker, **({"model": MODEL} if ranker is rank_passages else {}), depth=20)
    for row in rows(store, f"rankings/{name}"):
        origin = row["query_id"].rpartition("-")[0]
        assert {found.rpartition("-")[0] for found in row["passage_ids"]} == OWN[origin]
        assert len(row["passage_ids"]) == (20 if origin == "dm" else N_PAIRS)
        assert row["positive_score"] is not None and not np.isnan(row["positive_score"])
    go(store, mutual_agreement, models=(name,), strategy="consistency", top_n=3)
    go(store, mine_negatives, models=(name,), alpha=1.0)
    mined = rows(store, "mtt/1.0")
    assert {row["query_id"].rpartition("-")[0] for row in mined} == {"dm", "gd/squad", "gd/quora"}
    for row in mined:
        assert {found.rpartition("-")[0] for found in row["negative_ids"]} <= OWN[row["query_id"].rpartition("-")[0]]


def test_a_pair_of_ones_own_that_names_a_passage_is_ranked_among_passages(tmp_path):
    store = store_of(tmp_path, N_PASSAGES, ("dm",))
    named = [pair("faq", number) | {"passage_id": f"p-{number:02}"} for number in range(2)]
    alone = [pair("faq", number) for number in range(2, 4)]
    given = [{n: row[n] for n in PAIR_EMBEDDINGS.arrow.names if n in row} for row in named + alone]
    put(store, PAIR_EMBEDDINGS, given, dataset=f"query_embeddings/{MODEL}")
    go(store, rank_passages, model=MODEL)
    found = {row["query_id"]: set(row["passage_ids"]) for row in rows(store, f"rankings/{MODEL}")}
    assert len(found["faq-q0"]) == N_PASSAGES + 2 and {"faq-00", "faq-01"} < found["faq-q0"] == found["faq-q1"]
    assert found["faq-q2"] == found["faq-q3"] == {"faq-02", "faq-03"}


def test_a_refresh_of_one_corpus_merges_every_corpus_as_a_full_search_would(tmp_path):
    origins = ("dm", "gd/squad")
    store = store_of(tmp_path / "store", 20, origins)
    go(store, rank_passages, model=MODEL, depth=10)
    manifests = []
    for where in (tmp_path / "store", tmp_path / "fresh"):
        store = store_of(where, N_PASSAGES, (*origins, "gd/quora"))
        outcome = go(store, rank_passages, model=MODEL, depth=10)
        manifests.append(Version.open(store, outcome.ref).manifest)
        merged = outcome.counters.get("queries_merged", 0)
        assert merged == (2 * N_PAIRS if where.name == "store" else 0)
    assert manifests[0] == manifests[1]


def test_a_set_of_one_pair_has_no_negatives_and_says_so(tmp_path):
    store = store_of(tmp_path, N_PASSAGES, ("dm",))
    lone = [pair("dm", 0), pair("gd/alone", 0)]
    for schema, dataset in ((PAIRS, "mtp"), (PAIR_EMBEDDINGS, f"query_embeddings/{MODEL}")):
        chosen = [{n: row[n] for n in schema.arrow.names if n in row} for row in lone]
        put(store, schema, chosen, dataset=dataset)
    go(store, rank_passages, model=MODEL)
    go(store, mutual_agreement, models=(MODEL,), strategy="none")
    go(store, mine_negatives, models=(MODEL,), alpha=1.0)
    assert reasons(store, "mtt/1.0") == {"no_negative": 1}


@pytest.mark.parametrize("ranker", [rank_passages, rank_bm25])
def test_a_corpus_is_searched_for_the_blocks_that_have_a_query_of_it(tmp_path, monkeypatch, ranker):
    module = sys.modules[ranker.body.__module__]
    search, searched = module.search_shard, []

    @wraps(search)
    def watched(given, run):
        searched.append((given.values["corpus"], next(given.rows["pairs"].tables(["origin"]))["origin"][0].as_py()))
        return search(given, run)

    monkeypatch.setattr(module, "search_shard", watched)
    store = store_of(tmp_path, N_PASSAGES, ("dm", "gd/squad", "gd/quora"))
    go(store, ranker, **({"model": MODEL} if ranker is rank_passages else {}), depth=20, block_queries=N_PAIRS)
    assert set(searched) == {("", "dm"), ("gd/squad", "gd/squad"), ("gd/quora", "gd/quora")}
