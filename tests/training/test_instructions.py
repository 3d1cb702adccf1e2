"""A query's own instruction: from the rows to what a model is asked, in training and in evaluation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import INSTRUCTED_QUERIES, INSTRUCTED_TRIPLETS, JUDGED_QUERIES, PASSAGES, TRIPLETS
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.evaluation.evaluate_retriever import evaluate_retriever
from pipeline_tasks.evaluation.systems import Queries
from pipeline_tasks.retrieval.embed_pairs import embed_pairs
from pipeline_tasks.retrieval.open_encoder import load_encoder
from pipeline_tasks.training.data import judged_dev
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.data.rows import tokenized
from pipeline_tasks.training.distill import distill
from pipeline_tasks.training.finetune import FinetuneParams, finetune
from pipeline_tasks.training.model.export import export
from pipeline_tasks.training.triplets import dev_set, training_rows
from tests.shapes import TOPICS
from tests.stores import go, put
from tests.training.conftest import passage, query
from tests.training.made import put_model

OWN = ("find the passage of the storm", None)
NAMES = ("judged", "judged_passages"), ("targets", "target_passages")
LAYOUT = Layout("mean", 32, prefixes={"qa": "by intent: "}, pools_prefix=False, needs_intent=True)


def triplets(store: LocalStore, split: str, **more: list) -> Version:
    """Two queries; with ``more``, columns that rows of today lack."""
    rows = [
        {"query_id": f"q{i}", "intent": "qa", "query": query(i), "split": split}
        | {"positive": passage(i), "negative_ids": ["n"], "negatives": [passage(i + 1)]}
        | {name: values[i] for name, values in more.items()}
        for i in (0, 1)
    ]
    return Version.open(store, put(store, INSTRUCTED_TRIPLETS if more else TRIPLETS, rows, dataset=f"mtt/{split}"))


@pytest.mark.parametrize("split", ["train", "dev"])
@pytest.mark.parametrize(
    ("more", "instruct", "before"),
    [
        ({"instruction": OWN}, True, [f"{OWN[0]}: ", "by intent: "]),
        ({"instruction": OWN}, False, ["by intent: ", "by intent: "]),
        ({}, True, ["by intent: ", "by intent: "]),
    ],
)
def test_a_query_is_asked_with_its_own_instruction_else_with_that_of_its_intent(
    tmp_path, split, more, instruct, before
):
    version, params = triplets(LocalStore(tmp_path), split, **more), FinetuneParams(instruct=instruct)
    assert version.manifest.rows_schema == "triplets" and version.has("instruction") is bool(more)
    read = training_rows([version], params, LAYOUT) if split == "train" else dev_set(version, params, LAYOUT).blocks()
    (block,) = read
    assert block["prompt"].to_pylist() == before
    assert block["query"].to_pylist() == [text + query(i) for i, text in enumerate(before)]


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize(("longest", "n_cut"), [(8, 1), (4, 2)])
def test_an_instruction_that_leaves_no_room_for_its_query_is_refused(tmp_path, tiny_bert, pooled, longest, n_cut):
    version, layout = triplets(LocalStore(tmp_path), "train", instruction=OWN), replace(LAYOUT, pools_prefix=pooled)
    rows = Examples(partial(training_rows, [version], FinetuneParams(), layout))
    tokens, lengths = load(tiny_bert).tokens, {"max_passage_length": 16}
    assert len(tokenized(rows, tokens, tmp_path / "room", max_query_length=9, **lengths)) == 2
    nothing = f"max_query_length={longest} leaves nothing of {n_cut} queries behind an instruction of 7 tokens"
    with pytest.raises(InputError, match=nothing):
        tokenized(rows, tokens, tmp_path / "none", max_query_length=longest, **lengths)


@pytest.mark.parametrize(
    ("schema", "intent", "before"),
    [(INSTRUCTED_QUERIES, "qa", f"{OWN[0]}: "), (JUDGED_QUERIES, "qa", "by intent: "), (JUDGED_QUERIES, "any", "")],
)
def test_judged_queries_are_asked_as_evaluation_asks_them(tmp_path, schema, intent, before):
    """Also those of a set that says no intents, in which each has ``any``."""
    store, own = LocalStore(tmp_path), {"instruction": OWN[0]} if schema is INSTRUCTED_QUERIES else {}
    judged = {"query_id": "q", "query": query(0), "intent": intent, "passage_ids": ["p"], "grades": [2]}
    refs = put(store, schema, [judged | own]), put(store, PASSAGES, [{"passage_id": "p", "text": passage(0)}])
    given = {name: [Version.open(store, ref)] for names in NAMES for name, ref in zip(names, refs, strict=True)}
    chosen_on = judged_dev.dev_set(Inputs(given), lambda layout: pytest.fail("their own"))(LAYOUT)
    (guides,) = judged_dev.target_sets(Inputs(given))(LAYOUT).values()
    for examples in (chosen_on, guides):
        (block,) = examples.blocks()
        assert block["query"].to_pylist() == [before + query(0)] and block["prompt"].to_pylist() == [before]


def test_evaluation_asks_each_query_with_its_own_instruction(tmp_path, tiny_bert):
    export(load(tiny_bert), tmp_path / "m", card={}, layout=Layout("mean", 32, prefixes={"qa": f"{TOPICS[5]}: "}))
    encoder = load_encoder(tmp_path / "m", tmp_path, threads=1)
    queries, own = [query(0), query(1)], [TOPICS[2], None]
    asked = Queries(queries, ["qa", "qa"], ["p"], own)
    wanted = encoder.encode([f"{TOPICS[2]}: {queries[0]}", f"{TOPICS[5]}: {queries[1]}"])
    np.testing.assert_array_equal(asked.encoded_by(encoder), wanted)


@pytest.mark.parametrize(
    ("step", "name"),
    [(finetune, "triplets"), (distill, "triplets"), (embed_pairs, "pairs"), (evaluate_retriever, "queries")],
)
def test_steps_that_ask_read_the_instruction_where_rows_have_it(step, name):
    assert step.reads[name].schema is not None and step.reads[name].schema.has("instruction")


def test_a_model_trains_on_queries_with_tasks_of_their_own(tmp_path, tiny_bert):
    store = LocalStore(tmp_path / "store")
    export(load(tiny_bert), tmp_path / "m", card={}, layout=Layout("mean", 32))
    put_model(store, tmp_path / "m", "model/33m/pretrain")
    topics = range(len(TOPICS))
    rows = [
        {"query_id": f"q{t}", "intent": "any", "query": query(t), "instruction": OWN[0], "split": "train"}
        | {"positive": passage(t), "negative_ids": ["n"], "negatives": [passage((t + 1) % len(TOPICS))]}
        for t in topics
    ]
    put(store, INSTRUCTED_TRIPLETS, rows, dataset="mtt/fret")
    small = {"max_query_length": 32, "max_passage_length": 32, "batch_size": 8, "epochs": 1, "device": "cpu"}
    gecko = {"objective": "same_tower", "in_batch": True}
    counters = go(store, finetune, {"triplets": ["mtt/fret"]}, **small, **gecko).counters
    assert counters["training_queries"] == counters["negatives"] == len(TOPICS)
    assert counters["last_loss"] > 0
    queries_of_an_intent = [{name: row[name] for name in row if name != "instruction"} for row in rows]
    put(store, TRIPLETS, queries_of_an_intent, dataset="mtt/fret")
    with pytest.raises(InputError, match="no instruction for queries of intent 'any'"):
        go(store, finetune, {"triplets": ["mtt/fret"]}, **small, **gecko)
