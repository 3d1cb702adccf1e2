"""Training on tuples: rows for each question, and a ranking that changes with the instruction."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import TUPLES
from pipeline_tasks.encoders.layout import Layout, layout_of
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.retrieval.open_encoder import load_encoder
from pipeline_tasks.training.compute.candidates import make_group
from pipeline_tasks.training.compute.gradients import table_of
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.data.rows import tokenized
from pipeline_tasks.training.follow_instructions import (
    FollowInstructionsParams,
    dev_set,
    follow_instructions,
    plain_rows_of,
    rows_of,
    training_rows,
)
from pipeline_tasks.training.model.export import export
from pipeline_tasks.training.schedule import plan_schedule
from pipeline_tasks.training.validation import validate
from tests.shapes import TOPICS
from tests.stores import go, put
from tests.training.made import planted

SMALL = {"size": "22m", "max_query_length": 16, "max_passage_length": 16, "batch_size": 24, "device": "cpu"}
TOLD, ANSWERS = ("instruction", "poisoned_instruction"), ("positive", "instruction_passage", "query_passage")
LEARNING = SMALL | {"learning_rate": 5e-3, "temperature": 0.1, "epochs": 8, "evals_per_epoch": 1}


@pytest.fixture(scope="module")
def embedder(tiny_bert, tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedder")
    layout = Layout("mean", 24, prefixes={"query": "wk "})
    export(load(tiny_bert), folder, card={"name": "Mine", "summary": ""}, layout=layout)
    return str(folder)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> LocalStore:
    store = LocalStore(tmp_path_factory.mktemp("store"))
    topics = range(len(TOPICS))
    sides = [planted(topic, *side) for topic in topics for side in (("train",), ("dev", "wg"))]
    put(store, TUPLES, sides, dataset="tuples/checked")
    return store


def test_a_tuple_is_a_row_for_each_question_that_a_passage_answers(store):
    tuples, layout = Version.open(store, Ref.parse("tuples/checked")), Layout("mean", 24, prefixes={"query": "wk "})
    blocks = [rows.to_pylist() for rows in training_rows(tuples, layout)]
    found = [rows[1] for rows in blocks]
    tuple_ = planted(1, "train")
    told, poisoned, query, other = (
        tuple_[n] for n in ("instruction", "poisoned_instruction", "query", "poisoned_query")
    )
    passages = [tuple_[name] for name in ("positive", "instruction_passage", "query_passage")]
    asked = [f"wk {i}: {q}" for i, q in ((told, query), (poisoned, query), (told, other), (poisoned, other))]
    assert [row["query"] for row in found] == asked[:3]
    assert [row["positive"] for row in found] == passages
    assert [{row["positive"], *row["negatives"]} for row in found] == [set(passages)] * 3
    assert [row["other_instructions"] for row in found] == [[asked[1]], [asked[0]], [asked[3]]]
    assert [set(row["other_queries"]) for row in found] == [set(asked[2:]), set(asked[2:]), set(asked[:2])]
    assert all(not row["negatives"] for rows in training_rows(tuples, layout, 0) for row in rows.to_pylist())


def test_without_instruction_each_passage_answers_its_own_query(store):
    tuples, layout = Version.open(store, Ref.parse("tuples/checked")), Layout("mean", 24, prefixes={"query": "wk "})
    blocks = [rows.to_pylist() for rows in training_rows(tuples, layout, plain=True)]
    found, tuple_ = [rows[1] for rows in blocks[3:]], planted(1, "train")
    query, other = tuple_["query"], tuple_["poisoned_query"]
    told = [[f"wk {tuple_[name]}: {text}" for name in TOLD] for text in (query, other)]
    assert [row["query"] for row in found] == [f"wk {query}", f"wk {query}", f"wk {other}"]
    assert [row["positive"] for row in found] == [tuple_[name] for name in ANSWERS]
    for_query = [[tuple_["query_passage"]], told[1]]
    for_other = [[tuple_["positive"], tuple_["instruction_passage"]], told[0]]
    assert [[row["negatives"], row["other_queries"]] for row in found] == [for_query, for_query, for_other]
    assert not any("other_instructions" in row for row in found)
    assert [row["source"] for row in found] == ["plain"] * 3
    assert [row["source"] for row in (rows[1] for rows in blocks[:3])] == [""] * 3


def test_development_questions_are_of_their_intents(tmp_path):
    store = LocalStore(tmp_path)
    put(store, TUPLES, [planted(n, "dev") | {"intent": name} for n, name in enumerate(("qa", "cf"))])
    examples = dev_set(Version.open(store, Ref.parse("tuples")), Layout("mean", 24))
    assert {source for block in examples.blocks() for source in block["source"].to_pylist()} == {"qa", "cf"}


def test_a_start_that_leaves_instructions_out_of_its_mean_is_asked_and_trained_so(store, tiny_bert, tmp_path):
    tuples, tokens = Version.open(store, Ref.parse("tuples/checked")), load(tiny_bert).tokens
    layout = Layout("mean", 24, prefixes={"query": "wk "}, pools_prefix=False)
    one = TUPLES.table([planted(1, "train")])
    examples = Examples(partial(iter, [*rows_of(one, layout), *plain_rows_of(one, layout)]))
    data = tokenized(examples, tokens, tmp_path / "rows", max_query_length=16, max_passage_length=16)
    plain = np.isin(np.arange(len(data.queries)), data.query_of[data.source_of == data.sources.index("plain")])
    (contrast,) = np.setdiff1d(data.contrasts_of.values, data.query_of)
    assert not plain[contrast]
    # [CLS] wk, and of an instruction two words; in the toy vocabulary a colon is part of the word before it.
    assert data.unpooled.tolist() == np.where(plain, 2, 4).tolist()
    export(load(tiny_bert), tmp_path / "start", card={}, layout=layout)
    made = go(store, follow_instructions, backbone=str(tmp_path / "start"), **SMALL, epochs=1)
    assert not layout_of(Version.open(store, made.ref).lay_out(tmp_path / "out")).pools_prefix
    asked_of_all = Examples(partial(training_rows, tuples, layout, split="dev"))
    dev = tokenized(asked_of_all, tokens, tmp_path / "dev", max_query_length=16, max_passage_length=16)
    score = validate(load(tmp_path / "start"), dev, 1024, autocast=False)
    assert made.counters["dev_ndcg_at_10_of_start"] == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize("wrapper", ["", "matryoshka", "same_tower"])
@pytest.mark.parametrize("plain", [False, True])
def test_the_questions_of_a_tuple_meet_in_a_batch(store, tiny_bert, tmp_path, plain, wrapper):
    """So each of its texts is encoded once, and not once for each of its rows, inside a wrapper, too."""
    tuples, layout = Version.open(store, Ref.parse("tuples/checked")), Layout("mean", 24)
    examples, tokens = Examples(partial(training_rows, tuples, layout, plain=plain)), load(tiny_bert).tokens
    data = tokenized(examples, tokens, tmp_path, max_query_length=16, max_passage_length=16)
    rows_a_tuple, queries_a_tuple = (6, 6) if plain else (3, 4)
    inside = {"name": wrapper, "inner": "instruction_contrast"} | ({"dims": [8]} if wrapper == "matryoshka" else {})
    more = {"objective": inside} if wrapper else {}
    params = FollowInstructionsParams(**SMALL | {"batch_size": 2 * rows_a_tuple} | more)
    for rows, _ in plan_schedule(data, params):
        group = make_group(rows, data, in_batch=True, contrasted=True)
        n_tuples = len(rows) / rows_a_tuple
        assert len(group.passages) == 3 * n_tuples
        assert len(set(group.queries.tolist())) + len(group.contrasts) <= queries_a_tuple * n_tuples


@pytest.mark.parametrize("n_negatives", [0, 1, 2])
def test_of_a_tuples_other_passages_so_many_are_negatives_in_a_batch_as_well(store, tiny_bert, tmp_path, n_negatives):
    tuples, layout = Version.open(store, Ref.parse("tuples/checked")), Layout("mean", 24)
    examples = Examples(partial(training_rows, tuples, layout, n_negatives))
    data = tokenized(examples, load(tiny_bert).tokens, tmp_path, max_query_length=16, max_passage_length=16)
    for rows, _ in plan_schedule(data, FollowInstructionsParams(**SMALL, plain_rows=False, n_negatives=n_negatives)):
        group = make_group(rows, data, in_batch=True, contrasted=True)
        mine = data.tuple_of[rows][:, None] == data.tuple_of[rows]
        assert (group.candidates[:, group.positives] & mine).sum(axis=1).tolist() == [1 + n_negatives] * len(rows)
        others = ~mine & ~group.answers[:, group.positives]
        assert (group.candidates[:, group.positives] & ~mine).tolist() == others.tolist()


def test_a_query_without_instruction_has_no_wrong_instruction_and_no_answer_of_it_is_wrong(store, tiny_bert, tmp_path):
    tuples, layout = Version.open(store, Ref.parse("tuples/checked")), Layout("mean", 24)
    examples, tokens = Examples(partial(training_rows, tuples, layout, plain=True)), load(tiny_bert).tokens
    data = tokenized(examples, tokens, tmp_path, max_query_length=16, max_passage_length=16)
    mine = np.flatnonzero(data.tuple_of == data.tuple_of[0])
    group = make_group(mine, data, in_batch=True, contrasted=True)
    plain = data.source_of[mine] == data.sources.index("plain")
    assert plain.sum() == 3 and group.other_instructions.any(axis=1).tolist() == (~plain).tolist()
    assert group.candidates.sum(axis=1).tolist() == [3, 3, 3, 2, 2, 3]
    queries, passages = (
        functional.normalize(torch.randn(n, 8, generator=torch.Generator().manual_seed(n)), dim=1)
        for n in (len(group.queries) + len(group.contrasts), 3)
    )
    table = table_of(group, 0.1, "cpu")
    terms = table.contrast_scores(queries, passages, table.other_instructions)
    matching = (queries[: len(mine)] * passages[table.positives]).sum(dim=1) / 0.1
    costs = terms.logsumexp(dim=1) - matching
    assert (costs[plain].abs() < 1e-5).all() and (costs[~plain] > 1e-3).all()


def test_after_training_the_ranking_changes_with_the_instruction(store, embedder, tmp_path):
    made = go(store, follow_instructions, backbone=embedder, **LEARNING)
    assert made.ref.dataset == "model/22m/instructions"
    assert made.counters["dev_ndcg_at_10"] > made.counters["dev_ndcg_at_10_of_start"] + 0.2
    assert (made.counters["tuples"], made.counters["dev_queries"]) == (len(TOPICS), len(TOPICS))
    out = Version.open(store, made.ref).lay_out(tmp_path / "out")
    assert "wk {instruction}: {query}" in (out / "README.md").read_text()

    def followed(folder) -> float:
        """How often the passage of the kind that is asked for is nearer than that of the other kind."""
        encoder = load_encoder(folder, tmp_path, threads=1)
        tuples = [planted(topic, "dev", "wg") for topic in range(len(TOPICS))]
        passages = [encoder.encode_passages([t[n] for t in tuples]) for n in ("positive", "instruction_passage")]
        right = []
        for told, own, other in (("instruction", 0, 1), ("poisoned_instruction", 1, 0)):
            asked = encoder.encode_queries([t["query"] for t in tuples], None, [t[told] for t in tuples])
            right += list((asked * passages[own]).sum(1) > (asked * passages[other]).sum(1))
        return float(np.mean(right))

    assert followed(out) > 0.9


def test_without_a_tuple_there_is_nothing_to_learn(tmp_path, embedder):
    store = LocalStore(tmp_path)
    put(store, TUPLES, [planted(0, "dev")], dataset="tuples/checked")
    with pytest.raises(InputError, match="no tuple to train on"):
        go(store, follow_instructions, backbone=embedder, **SMALL)


def test_instructions_longer_than_the_start_reads_are_trained_on(store, embedder, tmp_path):
    there = LocalStore(tmp_path / "there")
    sides = [planted(topic, *side) for topic in range(len(TOPICS)) for side in (("train",), ("dev", "wg"))]
    longer = [row | {name: f"{row[name]} {32 * 'wc '}".strip() for name in TOLD} for row in sides]
    put(there, TUPLES, longer, dataset="tuples/checked")
    made = go(there, follow_instructions, backbone=embedder, **SMALL | {"max_query_length": 48, "epochs": 1})
    assert made.counters["dev_ndcg_at_10_of_start"] >= 0
