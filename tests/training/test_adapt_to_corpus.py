"""Adaptation as a step: the embedder learns a ranker's order, and is asked as it was before."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PAIRS, RANK_LISTS
from pipeline_tasks.encoders.layout import Layout, layout_of
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.training.adapt_to_corpus import adapt_to_corpus, training_rows
from pipeline_tasks.training.dry_run.forecast import forecast_lines, loads
from pipeline_tasks.training.model.export import export
from tests import shapes
from tests.shapes import TOPICS
from tests.stores import go, put
from tests.training.conftest import passage, query
from tests.training.made import put_model

ASKED = {"query": "wa ", "passage": "wb "}
SMALL = {"size": "22m", "max_query_length": 32, "max_passage_length": 32, "batch_size": 8, "device": "cpu"}
LEARNING = SMALL | {"learning_rate": 3e-3, "temperature": 0.1, "epochs": 6, "evals_per_epoch": 1}
LIST_NET = '{"name": "list_net", "alpha": 2.0}'


def ranked(topic: int, split: str) -> dict:
    """A list whose ranker puts the passage of the query's topic first and three of other topics after it."""
    near = [(topic + n) % len(TOPICS) for n in range(4)]
    return {
        "list_id": f"l{topic}-{split}",
        "query_id": f"q{topic}-{split}",
        "intent": "qa",
        "query": query(topic),
        "passage_ids": [f"p{n}" for n in near],
        "passages": [passage(n) for n in near],
        "scores": [12.0, 4.0, 3.0, 1.0],
        "split": split,
    }


def pair(topic: int, split: str) -> dict:
    texts = {"query": query(topic, 1), "passage": passage(topic), "positive": passage(topic)}
    return {"query_id": f"q{topic}", "intent": "qa", "split": split, "origin": "extracted/titles"} | texts


@pytest.fixture(scope="module")
def embedder(tiny_bert, tmp_path_factory):
    """A finished embedder with a prefix before queries and another before passages."""
    folder = tmp_path_factory.mktemp("embedder")
    export(load(tiny_bert), folder, card={"name": "Mine", "summary": ""}, layout=Layout("mean", 24, prefixes=ASKED))
    return str(folder)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> LocalStore:
    store = LocalStore(tmp_path_factory.mktemp("store"))
    topics = range(len(TOPICS))
    put(store, RANK_LISTS, [ranked(topic, split) for topic in topics for split in ("train", "dev")])
    put(store, PAIRS, [pair(topic, "dev") for topic in topics], dataset="mtp/extracted")
    return store


def test_an_embedder_learns_the_rankers_order_and_is_asked_as_before(store, embedder, tmp_path):
    made = go(store, adapt_to_corpus, backbone=embedder, objective=LIST_NET, **LEARNING)
    assert made.counters["dev_ndcg_at_10"] > made.counters["dev_ndcg_at_10_of_start"] + 0.2
    assert (made.counters["lists"], made.counters["dev_queries"]) == (len(TOPICS), len(TOPICS))
    found = layout_of(Version.open(store, made.ref).lay_out(tmp_path / "out"))
    assert (found.pooling, found.prefixes, found.max_length) == ("mean", ASKED, 32)
    assert made.ref.dataset == "model/22m/corpus"


def test_a_row_is_a_list_of_the_training_side_with_its_scores(store):
    (rows,) = training_rows(Version.open(store, Ref.parse("rank_lists")), Layout("mean", 24, prefixes=ASKED))
    first = rows.to_pylist()[0]
    assert len(rows) == len(TOPICS)
    assert first["query"] == "wa " + query(0)
    assert [first["positive"], *first["negatives"]] == ["wb " + passage(n) for n in range(4)]
    np.testing.assert_array_equal(first["targets"], [12, 4, 3, 1])


def test_adapters_train_where_they_are_asked_for(store, embedder):
    low_rank = {"lora_rank": 2, "lora_alpha": 4, "lora_targets": ["query", "value"]}
    made = go(store, adapt_to_corpus, backbone=embedder, keep_adapters=True, **SMALL | low_rank)
    assert any(part.name.startswith("adapter/") for part in Version.open(store, made.ref).manifest.parts)


def test_an_adapted_embedder_is_a_start_too(store, embedder):
    first = go(store, adapt_to_corpus, backbone=embedder, **SMALL)
    again = plan(store, adapt_to_corpus, SMALL | {"backbone": embedder, "start_from": ["model/22m/corpus"]})
    assert again.input_names["init"] == [str(first.ref)]


def test_a_backbone_that_pre_training_alone_makes_an_embedder_of_is_refused(store, embedder, tmp_path):
    decoder = shapes.make("qwen3", tmp_path / "decoder")
    with pytest.raises(
        InputError, match="'qwen3' model, is a decoder that was not adapted: .* or name start_from=model/"
    ):
        go(store, adapt_to_corpus, backbone=str(decoder), **SMALL)
    export(load(decoder), tmp_path / "trained", card={}, layout=Layout("mean", 32))
    trained = put_model(store, tmp_path / "trained", "model/22m/pretrain", causal=True)
    assert go(store, adapt_to_corpus, {"init": [str(trained)]}, **SMALL).ref is not None
    with pytest.raises(
        InputError, match="top 9 layers of minilm-l12-h384 judge pairs.*name start_from=model/33m/pretrain"
    ):
        go(store, adapt_to_corpus, **SMALL | {"size": "33m"})
    assert go(store, adapt_to_corpus, **SMALL | {"size": "33m", "backbone": embedder}).ref is not None


def test_lists_of_held_out_documents_alone_are_refused(store, embedder):
    held_out = put(store, RANK_LISTS, [ranked(0, "test")], dataset="rank_lists/held_out")
    with pytest.raises(InputError, match="no list to train on"):
        go(store, adapt_to_corpus, {"lists": [str(held_out)]}, backbone=embedder, **SMALL)


def test_a_dry_run_counts_the_lists_and_what_is_in_them(store):
    job = plan(store, adapt_to_corpus, SMALL)
    inputs = Inputs(job.open(store))
    train, dev = loads(inputs, job.params)
    assert (sum(train.rows.values()), train.n_texts) == (len(TOPICS), 5 * len(TOPICS)), "a query and four passages"
    assert sum(dev.rows.values()) == len(TOPICS)
    assert f"{len(TOPICS)} rows: 3 steps of 8" in forecast_lines(inputs, job.params, "H200")[1]


def test_by_default_it_is_list_net_and_the_id_says_so(store):
    shown = plan(store, adapt_to_corpus, {"size": "22m", "device": "cpu"}).identity
    assert (shown["learning_rate"], shown["batch_size"], shown["temperature"]) == (2e-5, 16, 0.05)
    assert (shown["objective"]["name"], shown["objective"]["alpha"]) == ("list_net", 1.0)
    assert (shown["max_query_length"], shown["max_passage_length"]) == (128, 256)
