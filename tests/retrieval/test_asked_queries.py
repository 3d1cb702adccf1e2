"""Queries that a model was not asked: they have no vector and no ranking, and all others are ranked as ever."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Part, Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version, commit, load_manifest, point
from pipeline_tasks.datasets import PAIR_EMBEDDINGS, PAIRS, PASSAGE_EMBEDDINGS
from pipeline_tasks.retrieval.embed_pairs import EmbedPairsParams, embed_pairs
from pipeline_tasks.retrieval.nearest_passages import NearestPassagesParams
from pipeline_tasks.retrieval.rank_passages import rank_passages
from tests.stores import go, put, rows

MODEL = "all-minilm-l6-v2"
QUERIES, POSITIVES = f"query_embeddings/{MODEL}", 12
DEPTH = {"depth": 10, "spare": 8, "shard_passages": 25, "block_queries": 20}


def vectors(seed: int, n: int) -> list[list[float]]:
    return np.random.default_rng(seed).normal(size=(n, 8)).astype(np.float32).tolist()


def pairs(name: str, asked: bool) -> list[dict]:
    """By turns of two intents and, every third, of a set of its own; of the second intent no query was asked."""
    found = zip(vectors(len(name), POSITIVES), vectors(sum(name.encode()), POSITIVES), strict=True)
    return [
        {"query_id": f"{name}{i}", "passage_id": "" if i % 3 == 0 else "p0", "doc_id": "d", "origin": "faq"}
        | {"intent": "sts" if i % 2 else "qa", "positive_id": f"g-{name}{i}", "positive_embedding": positive}
        | {"query_embedding": query if asked or i % 2 == 0 else None}
        for i, (query, positive) in enumerate(found)
    ]


def plant(store: LocalStore, n_passages: int, names: str, asked: bool = False) -> None:
    passages = [{"passage_id": f"p{i}", "embedding": v} for i, v in enumerate(vectors(1, n_passages))]
    put(store, PASSAGE_EMBEDDINGS, passages[:40], passages[40:], dataset=f"embeddings/{MODEL}")
    put(store, PAIR_EMBEDDINGS, *(pairs(name, asked) for name in names), dataset=QUERIES)
    if not asked:
        limit(store)


def limit(store: LocalStore) -> None:
    """The latest vectors say of which intent they are."""
    found = load_manifest(store, Ref.parse(QUERIES))
    commit(store, said := found.model_copy(update={"params": {"intents": ["qa"]}, "id": found.id[::-1]}))
    point(store, said.ref)


def test_who_is_asked_is_ranked_as_where_all_are(tmp_path):
    found = {}
    for asked in (True, False):
        plant(store := LocalStore(tmp_path / str(asked)), 60, "ab", asked)
        counters = go(store, rank_passages, model=MODEL, **DEPTH).counters
        found[asked] = rows(store, f"rankings/{MODEL}")
        assert counters["queries_searched"] == len(found[asked]) == (24 if asked else 12)
    assert found[False] == [row for row in found[True] if row["intent"] == "qa"]
    own = {row["query_id"]: row["passage_ids"] for row in found[False]}["a0"]
    assert set(own) == {f"g-{name}{i}" for name in "ab" for i in range(0, POSITIVES, 3)}, "all of the set compete"


def test_a_refresh_merges_the_rankings_of_who_was_asked(tmp_path):
    store, fresh = LocalStore(tmp_path / "store"), LocalStore(tmp_path / "fresh")
    plant(store, 50, "ab")
    go(store, rank_passages, model=MODEL, **DEPTH)
    for where in (store, fresh):
        plant(where, 60, "abc")
    merged, full = (go(where, rank_passages, model=MODEL, **DEPTH) for where in (store, fresh))
    assert Version.open(store, merged.ref).manifest == Version.open(fresh, full.ref).manifest
    assert (merged.counters["queries_merged"], full.counters["queries_merged"]) == (12, 0)
    assert merged.counters["queries_searched"] < full.counters["queries_searched"] == 18


def test_a_model_that_is_asked_nothing_of_some_pairs_has_no_rankings_of_them(tmp_path):
    store = LocalStore(tmp_path)
    plant(store, 60, "a")
    put(store, PAIR_EMBEDDINGS, [row for row in pairs("a", asked=False) if row["intent"] == "sts"], [], dataset=QUERIES)
    limit(store)
    go(store, rank_passages, model=MODEL, **DEPTH)
    assert rows(store, f"rankings/{MODEL}") == []


def test_a_query_of_another_intent_gets_no_vector_and_its_positive_does(tmp_path, fetched):
    fetched(MODEL)
    store = LocalStore(tmp_path)
    texts = {"query": "why", "positive": "because", "positive_id": "g", "passage_id": "p"}
    asked = [texts | {"query_id": f"q{i}", "intent": intent} for i, intent in enumerate(("qa", "sts", "qa"))]
    put(store, PAIRS, asked, [asked[1] | {"query_id": "r"}], dataset="mtp")
    go(store, embed_pairs, model=MODEL)
    full = rows(store, QUERIES)
    assert go(store, embed_pairs, model=MODEL, intents=["qa"]).counters["texts_encoded"] == 6
    assert rows(store, QUERIES) == [row | ({} if row["intent"] == "qa" else {"query_embedding": None}) for row in full]
    with pytest.raises(InputError, match="no intent is called 'riddle'"):
        go(store, embed_pairs, model=MODEL, intents=["riddle"])


def test_a_set_of_one_intent_that_is_not_asked_is_not_encoded_at_all(tmp_path, fetched):
    fetched(MODEL)
    store = LocalStore(tmp_path)
    texts = {"query": "why", "positive": "because", "positive_id": "g", "passage_id": ""}
    of = {"gd/quora": "sts", "gd/squad": "qa", "faq": "sts"}
    asked = [texts | {"query_id": origin, "origin": origin, "intent": intent} for origin, intent in of.items()]
    ours = texts | {"query_id": "ours", "origin": "gd/quora", "intent": "sts", "passage_id": "p"}
    put(store, PAIRS, asked, [asked[0] | {"query_id": "r"}], [ours], dataset="mtp")
    sets = {"intents": ["qa"], "of_one_intent": {"gd/quora": "sts", "gd/squad": "qa"}}
    counters = go(store, embed_pairs, model=MODEL, **sets).counters
    assert (counters["pairs_left_out"], counters["texts_encoded"]) == (2, 4)
    assert [row["query_id"] for row in rows(store, QUERIES)] == ["gd/squad", "faq", "ours"]
    put(store, PAIRS, asked, [asked[0] | {"query_id": "r", "intent": "qa"}], dataset="mtp")
    with pytest.raises(InputError, match="says that pairs of 'gd/quora' are of 'sts', and some, .* are of 'qa': leave"):
        go(store, embed_pairs, model=MODEL, **sets)


def test_parts_of_which_the_same_is_encoded_are_taken_over_where_intents_and_sets_are_others(tmp_path, fetched):
    fetched(MODEL)
    texts = {"query": "why", "positive": "because", "positive_id": "g", "passage_id": ""}
    of = {"gd/quora": "sts", "gd/squad": "qa", "faq": "sts"}
    asked = [texts | {"query_id": origin, "origin": origin, "intent": intent} for origin, intent in of.items()]

    def made(folder: str, **values) -> tuple[int, list[Part]]:
        store = LocalStore(tmp_path / folder)
        put(store, PAIRS, asked[:2], asked[2:], [asked[1] | {"query_id": "q"}], dataset="mtp")
        outcome = go(store, embed_pairs, model=MODEL, **values)
        return outcome.counters["texts_encoded"], load_manifest(store, outcome.ref).parts

    left_out = {"of_one_intent": {"gd/quora": "sts"}}
    grown = {"of_one_intent": {"gd/quora": "sts", "gd/new": "nli"}}
    for number, (values, n_texts) in enumerate(
        (
            ({"intents": ["qa"], **left_out}, 2 + 1 + 2),
            ({"intents": ["qa"], **grown}, 0),
            ({"intents": ["qa", "sts"], **grown}, 4 + 2),
            ({"intents": ["qa"]}, 3 + 1),
            ({"intents": ["qa"], "storage": "float16"}, 3 + 1 + 2),
        )
    ):
        assert made("store", **values) == (n_texts, made(f"fresh{number}", **values)[1])


def test_the_intents_are_part_of_the_version_where_some_are_named_in_whatever_order():
    everyone = EmbedPairsParams(model=MODEL).identity()
    assert "intents" not in everyone and "intents" not in NearestPassagesParams.model_fields
    some = [EmbedPairsParams(model=MODEL, intents=intents).identity() for intents in (("sts", "qa"), ("qa", "sts"))]
    assert some[0] == some[1] == everyone | {"intents": ["qa", "sts"]}
