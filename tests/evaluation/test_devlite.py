"""DevLite: a few queries over a small pool, and a training that chooses its checkpoint on it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import EVALUATIONS, JUDGED_QUERIES, PAIRS, PASSAGES
from pipeline_tasks.evaluation.evaluate_retriever import evaluate_retriever
from pipeline_tasks.evaluation.pool_passages import pool_passages
from pipeline_tasks.evaluation.sample_queries import SampleQueriesParams, sample_queries, sampled
from pipeline_tasks.evaluation.scores import AVERAGE, scores_of
from pipeline_tasks.training.pretrain import pretrain
from tests import shapes
from tests.stores import go, put, reasons, rows

INTENTS = ("qa", "nli")
POOL = {"set_name": "mine", "per_intent": 2, "models": ("one", "two"), "depth": 2}
SMALL = {"size": "22m", "batch_size": 4, "max_query_length": 32, "max_passage_length": 32, "device": "cpu"}


@pytest.fixture
def store(tmp_path):
    """Ten queries over forty passages; query i has the passage p<i> of grade 2 and p<i+10> of grade 1."""
    store = LocalStore(tmp_path / "store")
    words = [*shapes.TOPICS, *shapes.FILLERS]
    texts = [f"{words[i % len(words)]} {words[(7 * i + 3) % len(words)]}" for i in range(40)]
    passages = [
        {"passage_id": f"p{i:02}", "doc_id": f"d{i}", "text": text, "split": "test"} for i, text in enumerate(texts)
    ]
    put(store, PASSAGES, passages[:25], passages[25:], dataset="corpus/mine")
    judged, evaluated = [], []
    for i in range(10):
        query = {"query_id": f"q{i}", "intent": INTENTS[i % 2], "query": texts[i].split()[0]}
        judged.append(query | {"doc_id": "", "passage_ids": [f"p{i:02}", f"p{i + 10}"], "grades": [2, 1]})
        for system, first in (("one", i), ("two", i + 20), ("three", 39)):
            found = [f"p{first:02}", f"p{(first + 1) % 40:02}", "p38"]
            evaluated.append(
                {"evaluation_id": f"{system}/q{i}", "system": system, "query_id": f"q{i}", "passage_ids": found}
            )
    put(store, JUDGED_QUERIES, judged, dataset="judged/mine")
    put(store, EVALUATIONS, evaluated, dataset="eval/mine")
    return store


def lite(store):
    go(store, pool_passages, **POOL)
    go(store, sample_queries, set_name="mine", per_intent=2)
    go(store, sample_queries, {"passages": ["corpus/mine"]}, set_name="mine", per_intent=2, part="test")
    return rows(store, "judged/mine-dev"), rows(store, "judged/mine-test"), rows(store, "corpus/mine-dev")


def test_a_corpus_that_is_smaller_than_the_pool_is_deep_is_pooled(store):
    put(store, PASSAGES, [{"passage_id": f"p{n}", "text": "a"} for n in (36, 37, 38)], dataset="corpus/mine")
    go(store, pool_passages, **POOL | {"depth": 9})
    assert "p38" in {row["passage_id"] for row in rows(store, "corpus/mine-dev")}


def test_the_two_sides_have_every_query_once_and_the_pool_is_what_the_models_found(store):
    dev, test, pool = lite(store)
    assert sorted(row["query_id"] for row in dev + test) == [f"q{i}" for i in range(10)]
    assert sorted(row["intent"] for row in dev) == ["nli", "nli", "qa", "qa"]
    asked = [int(row["query_id"][1]) for row in dev]
    assert {row["passage_id"] for row in pool} == {f"p{at:02}" for i in asked for at in (i, i + 1, i + 20, i + 21)}
    assert all(row["passage_ids"][0] == f"p{i:02}" for row, i in zip(dev, asked, strict=True))
    assert set(reasons(store, "judged/mine-dev")) <= {"unknown_passage"}, "what no model found is nobody's answer"
    assert all(len(row["passage_ids"]) == 2 for row in test), "the other side has the whole corpus"


@pytest.mark.parametrize("others", [{"any": ("one", "two")}, {}])
def test_a_query_pools_what_the_models_of_its_intent_found_and_all_of_them_where_none_is_named(store, others):
    go(store, pool_passages, **POOL, judges={"qa": ("one",)} | others)
    go(store, sample_queries, set_name="mine", per_intent=2)
    asked = {int(row["query_id"][1]): row["intent"] for row in rows(store, "judged/mine-dev")}
    found = {i: (i, i + 1) if intent == "qa" else (i, i + 1, i + 20, i + 21) for i, intent in asked.items()}
    pool = {row["passage_id"] for row in rows(store, "corpus/mine-dev")}
    assert len(asked) == 4 and pool == {f"p{at:02}" for some in found.values() for at in some}
    alone = go(store, pool_passages, **POOL)
    same = go(store, pool_passages, **POOL, judges=dict.fromkeys(INTENTS, ("two", "one")))
    assert same.reused and same.ref == alone.ref, "all for every intent, as before this was told by intent"


def test_a_set_of_which_no_query_is_drawn_has_an_empty_pool(store):
    put(store, JUDGED_QUERIES, rows(store, "judged/mine")[:1], dataset="judged/mine")
    go(store, pool_passages, **POOL)
    assert rows(store, "corpus/mine-dev") == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"models": ("four",)}, "has no system 'four'"),
        ({"depth": 4}, "keeps 3 passages a query, depth=4 are asked for: raise kept there, or lower depth"),
    ],
)
def test_a_pool_of_what_was_not_evaluated_is_refused(store, values, message):
    with pytest.raises(InputError, match=message):
        go(store, pool_passages, **POOL | values)


def test_queries_that_the_evaluation_does_not_have_are_refused_unless_they_have_no_answer(store):
    judged = rows(store, "judged/mine")
    newer = [row | {"query_id": f"{row['query_id']}-new", "query": row["query"] + " now"} for row in judged]
    ref = put(store, JUDGED_QUERIES, newer, dataset="judged/mine")
    with pytest.raises(InputError, match=rf"'one' of 4 of 4 queries, as of 'q.-new': evaluate it on {ref} first"):
        go(store, pool_passages, **POOL)
    erased = [row | {"passage_ids": [], "grades": []} for row in newer]
    put(store, JUDGED_QUERIES, erased, dataset="judged/mine")
    go(store, pool_passages, **POOL)
    assert rows(store, "corpus/mine-dev") == []


def test_an_evaluation_of_other_queries_or_passages_is_not_pooled(store):
    corpus, judged, evaluated = (rows(store, f"{kind}/mine") for kind in ("corpus", "judged", "eval"))
    old = put(store, PASSAGES, corpus[:39], dataset="corpus/mine")
    asked = put(store, JUDGED_QUERIES, judged[::-1], dataset="judged/mine", passages=old)
    made = put(store, EVALUATIONS, evaluated[::-1], dataset="eval/mine", queries=asked, passages=old)
    go(store, pool_passages, **POOL)
    new = put(store, PASSAGES, corpus, dataset="corpus/mine")
    again = put(store, JUDGED_QUERIES, judged, dataset="judged/mine", passages=new)
    remedy = f"--input evaluation=…, or give --input queries={asked} --input passages={old}"
    with pytest.raises(InputError, match=f"{made} is of {asked}, {old}, not {again}, {new}: .*{remedy}"):
        go(store, pool_passages, **POOL)
    with pytest.raises(InputError, match=f"{asked} was judged on {old}, not {new}: give --input passages={old}"):
        go(store, pool_passages, {"queries": [str(asked)]}, **POOL)
    assert go(store, pool_passages, {"queries": [str(asked)], "passages": [str(old)]}, **POOL).reused


def test_what_is_reported_on_is_not_asked_of_the_pool(store):
    whole = put(store, PASSAGES, rows(store, "corpus/mine"), dataset="corpus/mine")
    judged = put(store, JUDGED_QUERIES, rows(store, "judged/mine")[::-1], dataset="judged/mine", passages=whole)
    pool = go(store, pool_passages, **POOL).ref
    go(store, sample_queries, set_name="mine", per_intent=2)
    with pytest.raises(InputError, match=f"that {judged} was judged on, and not over {pool}: give .*={whole}"):
        go(store, sample_queries, set_name="mine", per_intent=2, part="test")
    go(store, sample_queries, {"passages": [str(whole)]}, set_name="mine", per_intent=2, part="test")
    assert len(rows(store, "judged/mine-test")) == 6


def test_a_training_chooses_its_checkpoint_on_the_judged_queries(store, tmp_path):
    lite(store)
    pair = {"passage_id": "p00", "intent": "qa"}
    pairs = [
        pair
        | {"origin": "dm" if i % 2 else "faq"}
        | {"query_id": f"t{i}", "query": f"t{c} wa", "passage": f"t{c} wb", "positive": f"t{c} wc", "split": split}
        for i, (c, split) in enumerate([(c, "train") for c in "abcdefgh"] + [("i", "dev")])
    ]
    put(store, PAIRS, pairs, dataset="mtp")
    start = str(shapes.make("bert", tmp_path / "start"))
    own = go(store, pretrain, backbone=start, **SMALL)
    judged = go(store, pretrain, backbone=start, choose_on=("mine-dev",), **SMALL)
    assert own.ref != judged.ref
    assert (own.counters["dev_queries"], judged.counters["dev_queries"]) == (1, 4)
    assert 0 < judged.counters["dev_ndcg_at_10"] <= 1
    guided = {"name": "inf_dds", "every": 1, "warmup_steps": 0, "target_batch": 4}
    sampled = go(store, pretrain, backbone=start, sampler=guided, targets=("mine-dev",), **SMALL)
    sql = "SELECT source, map_keys(influences)[1] AS target FROM sampling_trajectories WHERE influence IS NOT NULL"
    assert {tuple(row.values()) for row in query(store, sql).to_pylist()} == {
        ("dm", "mine-dev"),
        ("faq", "mine-dev"),
    }
    assert sampled.counters["dev_queries"] == 1
    with pytest.raises(InputError, match="judged/nowhere"):
        go(store, pretrain, backbone=start, choose_on=("nowhere",), **SMALL)


def test_queries_are_not_sampled_over_the_pool_of_an_older_set(store):
    pool = go(store, pool_passages, **POOL).ref
    newer = put(store, JUDGED_QUERIES, rows(store, "judged/mine")[1:], dataset="judged/mine")
    with pytest.raises(InputError, match=f"{pool} was pooled for judged/mine@.*, not {newer}: run pool_passages first"):
        go(store, sample_queries, set_name="mine", per_intent=2)
    go(store, sample_queries, {"passages": ["corpus/mine"]}, set_name="mine", per_intent=2)
    go(store, pool_passages, **POOL)
    go(store, sample_queries, set_name="mine", per_intent=2)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"choose_on": ("mine-dev",)}, "judged_passages"),
        ({"sampler": {"name": "inf_dds"}, "targets": ("mine-dev",)}, "target_passages"),
    ],
)
def test_queries_of_an_older_pool_neither_choose_a_checkpoint_nor_guide_a_sampler(store, tmp_path, values, name):
    lite(store)
    put(store, PAIRS, [{"query_id": "t", "split": "train"}], dataset="mtp")
    pool = rows(store, "corpus/mine-dev")
    other = put(store, PASSAGES, pool[1:], dataset="corpus/mine-dev")
    remedy = f"was judged on (.*), not {other}: give --input {name}=\\1, or run sample_queries on {other} first"
    with pytest.raises(InputError, match=remedy):
        go(store, pretrain, backbone=str(shapes.make("bert", tmp_path / "start")), **SMALL, **values)


def test_a_sampler_is_guided_by_as_many_corpora_as_sets(store, tmp_path):
    lite(store)
    put(store, PAIRS, [{"query_id": "t", "split": "train"}], dataset="mtp")
    values = {"sampler": {"name": "inf_dds"}, "targets": ("mine-dev", "mine")}
    start = str(shapes.make("bert", tmp_path / "start"))
    with pytest.raises(InputError, match="1 target_passages for 2 targets: name one corpus for each set"):
        go(store, pretrain, {"target_passages": ["corpus/mine"]}, backbone=start, **SMALL, **values)


def test_what_chooses_a_checkpoint_is_what_an_evaluation_of_it_says(store, tmp_path):
    """Two of nine queries are of the rarer intent, and the words of one of these are asked in both."""
    passages = rows(store, "corpus/mine")[:36]
    put(store, PASSAGES, passages, dataset="corpus/mine")
    texts = [row["text"] for row in passages]
    asked = [("qa", texts[i], i) for i in range(7)] + [("nli", texts[0], 9), ("nli", texts[30].split()[0], 8)]
    judged = [
        {"query_id": f"q{number}", "intent": intent, "query": words, "passage_ids": [f"p{i:02}", "p35"]}
        | {"doc_id": "", "grades": [2, 1]}
        for number, (intent, words, i) in enumerate(asked)
    ]
    put(store, JUDGED_QUERIES, judged, dataset="judged/mine")
    pair = {"passage_id": "p00", "intent": "qa", "origin": "dm", "split": "train"}
    pairs = [
        pair | {"query_id": f"t{c}", "query": f"t{c} wa", "passage": f"t{c} wb", "positive": f"t{c} wc"}
        for c in "abcdefgh"
    ]
    put(store, PAIRS, pairs, dataset="mtp")
    start = str(shapes.make("bert", tmp_path / "start"))
    made = go(store, pretrain, backbone=start, choose_on=("mine",), **SMALL)
    given = {"queries": ["judged/mine"], "passages": ["corpus/mine"], "embeddings": [], "models": [str(made.ref)]}
    evaluated = go(store, evaluate_retriever, given, set_name="mine", size="", systems=(), models=())
    found = scores_of(Version.open(store, evaluated.ref))
    (of_model,) = found.table.values()
    assert found.counts == {AVERAGE: 9, "nli": 2, "qa": 7}
    assert made.counters["dev_ndcg_at_10"] == pytest.approx(of_model[AVERAGE].mean, abs=1e-4)
    assert abs(of_model["qa"].mean - of_model["nli"].mean) > 0.2, "a mean over queries is another"


def test_a_query_that_several_ids_have_is_on_one_side():
    words = [f"how deep is flood {i}?" for i in range(50)]
    twins = pa.table({"query": [*words, *[word.upper() + " " for word in words]], "intent": ["qa"] * 100})
    for most in (1, 20, 49, 50, 80):
        chosen = sampled(twins, SampleQueriesParams(set_name="mine", per_intent=most))
        assert (chosen[:50] == chosen[50:]).all()
        assert max(0, min(most, 50) - 1) <= chosen.sum() <= min(most, 50)
    alike = pa.table({"query": ["the same"] * 4, "intent": ["qa"] * 4})
    assert not sampled(alike, SampleQueriesParams(set_name="mine")).any(), "half of one query is none"


@pytest.mark.parametrize("salt", [f"salt {n}" for n in range(10)])
def test_words_that_two_intents_ask_are_on_one_side(salt):
    texts = [f"{intent} {n}" if n else "both ask this" for intent in INTENTS for n in range(10)]
    queries = pa.table({"query": texts, "intent": [intent for intent in INTENTS for _ in range(10)]})
    found = sampled(queries, SampleQueriesParams(set_name="mine", per_intent=3, salt=salt))
    assert found[0] == found[10]
    assert 6 <= found.sum() <= 7
