"""What is compared for a query is found in its inputs however they are divided, and no more of them is held."""

from __future__ import annotations

import pytest

from pipeline_tasks.core import versions
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.versions import Version
from pipeline_tasks.curation import compared_passages as module
from pipeline_tasks.curation.relabel import relabel
from pipeline_tasks.curation.rerank_passages import rerank_passages
from pipeline_tasks.datasets import INSTRUCTED_PAIRS, PASSAGES, RANKINGS
from pipeline_tasks.models.use import REFERENCE_MODELS
from pipeline_tasks.retrieval.cross_encoder import TorchCrossEncoder
from tests import small_reranker
from tests.curation import small_scorer
from tests.curation.compared import NEAREST, PASSAGE, SOURCE, filled, passage_rows
from tests.shapes import FILLERS
from tests.stores import go, put, rejects, rows


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_blocks_have_no_say_and_of_equal_ids_the_first_counts(tmp_path, monkeypatch, at_once):
    reranker = str(small_reranker.make(tmp_path / "reranker"))

    def made(folder, *parts):
        store = filled(tmp_path / folder)
        put(store, PASSAGES, *(passage_rows(dict(part)) for part in parts))
        go(store, rerank_passages, reranker=reranker, max_length=64)
        return [part.sha256 for part in Version.open(store, Ref.parse("relabelled/reranked")).manifest.parts]

    texts = list(PASSAGE.items())
    whole = made("whole", texts)
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", at_once)
    assert (
        made("parts", texts[4:], texts[:4], [("p1", "another text of p1")], [("p9", "that nobody asks for")]) == whole
    )


def test_texts_are_read_from_parts_that_hold_what_is_compared_and_ids_once(tmp_path, monkeypatch):
    store = filled(tmp_path / "store")
    texts = [*PASSAGE.items(), ("p9", "that nobody asks for")]
    ref = put(store, PASSAGES, *(passage_rows({name: text}) for name, text in texts))
    names = {part.sha256: name for part, (name, _) in zip(Version.open(store, ref).manifest.parts, texts, strict=True)}
    seen: dict[str, list[str | None]] = {"ids": [], "texts": []}

    def counted(read):
        def reads(store, part, columns, *rest):
            seen["texts" if "text" in (columns or ()) else "ids"].append(names.get(part.sha256))
            return read(store, part, columns, *rest)

        return reads

    for reader in ("read_part", "part_batches"):
        monkeypatch.setattr(versions, reader, counted(getattr(versions, reader)))
    go(store, rerank_passages, reranker=str(small_reranker.make(tmp_path / "reranker")), max_length=64)
    assert seen["texts"] == ["p0", "p1", "p2", "p3"] + ["p2", "p4", "p5", "p6", "p7"], "of both parts of queries"
    assert [name for name in seen["ids"] if name] == list(names.values())


@pytest.fixture
def one_at_a_time(monkeypatch):
    """No score depends on what else is in its batch."""
    monkeypatch.setattr(TorchCrossEncoder, "batch_tokens", 1)


@pytest.mark.usefixtures("one_at_a_time")
@pytest.mark.parametrize(
    ("judge", "params", "free"),
    [
        (rerank_passages, lambda at: {"reranker": str(small_reranker.make(at)), "max_length": 64}, {"margin": 0.5}),
        (relabel, lambda at: {"scorer": str(small_scorer.make(at)), "batch_size": 1}, {"k": 2}),
    ],
)
def test_only_pairs_of_other_words_are_scored_again(tmp_path, judge, params, free):
    """The rows, rejects and the count of changed positives are those of a run from nothing, byte for byte."""
    values = params(tmp_path / "judge")

    def made(folder, texts, query="flood", near=(), more=()):
        store = filled(tmp_path / folder)
        put(store, PASSAGES, *(passage_rows({name: text}) for name, text in texts.items()))
        pairs = rows(store, "mtp/fret/checked")
        pairs[3]["query"] = query
        put(store, INSTRUCTED_PAIRS, pairs, [pairs[0] | {"query_id": "q9"}], dataset="mtp/fret/checked")
        ranked = [
            {"query_id": name, "passage_id": SOURCE[name], "passage_ids": [*near, *ids]}
            for name, ids in NEAREST.items()
        ]
        put(store, RANKINGS, ranked[:2], ranked[2:], dataset=f"nearest/{REFERENCE_MODELS[0]}")
        outcome = go(store, judge, **values | dict(more))
        version = Version.open(store, outcome.ref).manifest
        found = outcome.counters["positives_changed"], version.parts, version.rejects
        return outcome.counters["passages_compared"], found

    changed, grown = PASSAGE | {"p5": "another text of p5"}, PASSAGE | {"p9": FILLERS[8]}
    steps = [
        ((PASSAGE,), 10),
        ((grown,), 0),
        ((changed,), 1),
        ((changed, "storm"), 4),
        ((PASSAGE, "storm"), 1),
        ((grown, "storm", ["p9"]), 4),
        ((grown, "storm", ["p9"], free), 0),
        ((grown, "storm", (), free), 0),
    ]
    for number, (given, n_scored) in enumerate(steps):
        _, fresh = made(f"fresh{number}", *given)
        assert made("store", *given) == (n_scored, fresh), number


@pytest.mark.usefixtures("one_at_a_time")
def test_another_judge_and_a_version_that_lost_a_part_say_no_score(tmp_path):
    store = filled(tmp_path / "store")
    values = {"reranker": str(small_reranker.make(tmp_path / "reranker")), "max_length": 64}

    def n_scored(more):
        put(store, PASSAGES, passage_rows(PASSAGE | {more: "that nobody asks for"}))
        return go(store, rerank_passages, **values).counters["passages_compared"]

    assert [n_scored("p8"), n_scored("p9")] == [10, 0]
    values["max_length"] = 63
    assert n_scored("p9") == 10
    store.delete(Version.open(store, Ref.parse("relabelled/reranked")).manifest.parts[0].key)
    assert n_scored("p10") == 10


def test_what_was_held_out_since_is_neither_asked_nor_compared(tmp_path):
    """q0's own passage is of test documents now, q1 is left with one neighbour and q3 with its own passage alone."""
    store = filled(tmp_path / "store")
    sides = {"p0": "test", "p2": "test", "p5": "test", "p6": "train", "p7": "train"}
    moved = [row | {"split": sides.get(row["passage_id"], row["split"])} for row in passage_rows(PASSAGE)]
    put(store, PASSAGES, moved)
    counters = go(
        store, rerank_passages, reranker=str(small_reranker.make(tmp_path / "reranker")), max_length=64
    ).counters
    (row,) = rows(store, "relabelled/reranked")
    assert row["query_id"] == "q1" and sorted(row["passage_ids"]) == ["p1", "p3"]
    assert row["passages"] == [PASSAGE[name] for name in row["passage_ids"]] and counters["passages_compared"] == 2
    assert {name: (row["reason"], row["detail"]) for name, row in rejects(store, "relabelled/reranked").items()} == {
        "q0": ("other_side", "p0 is in split test"),
        "q2": ("other_side", "p2 is in split test"),
        "q3": ("nothing_to_compare", "only p4"),
    }
