"""A query's own instruction: from the rows to what a model is asked, in training and in evaluation."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import INSTRUCTED_QUERIES, INSTRUCTED_TRIPLETS, JUDGED_QUERIES, PASSAGES, TRIPLETS
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.evaluation.systems import Asked
from pipeline_tasks.retrieval.encoders import load_encoder
from pipeline_tasks.training import judged_dev
from pipeline_tasks.training.export import export
from pipeline_tasks.training.finetune import FinetuneParams
from pipeline_tasks.training.triplets import dev_set, training_rows
from tests.shapes import TOPICS
from tests.stores import put
from tests.training.conftest import passage, query

OWN = ("find the passage of the storm", None)
NAMES = ("judged", "judged_passages")
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


@pytest.mark.parametrize("schema", [INSTRUCTED_QUERIES, JUDGED_QUERIES])
def test_judged_queries_choose_a_checkpoint_by_what_they_are_to_find(tmp_path, schema):
    store, own = LocalStore(tmp_path), {"instruction": OWN[0]} if schema is INSTRUCTED_QUERIES else {}
    judged = {"query_id": "q", "query": query(0), "intent": "qa", "passage_ids": ["p"], "grades": [2]}
    refs = put(store, schema, [judged | own]), put(store, PASSAGES, [{"passage_id": "p", "text": passage(0)}])
    inputs = Inputs({name: [Version.open(store, ref)] for name, ref in zip(NAMES, refs, strict=True)})
    (block,) = judged_dev.dev_set(inputs, lambda layout: pytest.fail("their own"))(LAYOUT).blocks()
    assert block["query"].to_pylist() == [(f"{OWN[0]}: " if own else "by intent: ") + query(0)]


def test_evaluation_asks_each_query_with_its_own_instruction(tmp_path, tiny_bert):
    export(load(tiny_bert), tmp_path / "m", card={}, layout=Layout("mean", 32, prefixes={"qa": f"{TOPICS[5]}: "}))
    encoder = load_encoder(tmp_path / "m", tmp_path, threads=1)
    queries, own = [query(0), query(1)], [TOPICS[2], None]
    asked = Asked(queries, ["qa", "qa"], ["p"], [passage(0)], own)
    wanted = encoder.encode([f"{TOPICS[2]}: {queries[0]}", f"{TOPICS[5]}: {queries[1]}"])
    np.testing.assert_array_equal(asked.encoded_by(encoder), wanted)
