from __future__ import annotations

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import load_manifest, manifest_key, resolve
from pipeline_tasks.curation.mine_negatives import mine_negatives
from pipeline_tasks.curation.mutual_agreement import mutual_agreement
from pipeline_tasks.datasets import PAIRS
from pipeline_tasks.synthesis.combine_pairs import combine_pairs
from tests.curation.conftest import SPLIT_OF
from tests.stores import go, put, rejects, rows


@pytest.fixture
def labelled(store: LocalStore) -> LocalStore:
    go(store, mutual_agreement, models=("one", "two"), strategy="mutual", top_n=2)
    return store


def mined(store: LocalStore, alpha: float, **params: int) -> dict[str, dict]:
    go(store, mine_negatives, alpha=alpha, models=("one",), **params)
    return {row["query_id"]: row for row in rows(store, f"mtt/{alpha}")}


def test_negatives_leave_out_the_positive_its_sources_and_other_splits(labelled):
    triplets = mined(labelled, 1.0)
    assert {query: row["negative_ids"] for query, row in triplets.items()} == {
        "q-t1": ["t2", "t3", "t4", "t5"],
        "q-t2": ["t3", "t4", "t1", "t5"],
        "q-d1": ["d2", "d3"],
    }
    row = triplets["q-t2"]
    assert (row["positive_id"], row["positive"], row["mining_model"]) == ("g-t2", "text for t2", "one")
    assert row["negatives"] == ["text of t3", "text of t4", "text of t1", "text of t5"]
    assert row["positive_score"] == pytest.approx(0.9)
    assert row["negative_scores"] == pytest.approx([0.85, 0.65, 0.55, 0.5])


@pytest.mark.parametrize("typed", [str, str.upper, lambda query: f" {query.replace(' ', '  ')}"])
def test_what_a_refused_pair_of_the_same_query_names_is_no_negative(labelled, typed):
    pairs = {row["query_id"]: row for row in rows(labelled, "mtp")}
    again = pairs["q-t3"] | {"query_id": "again", "query": typed(pairs["q-t2"]["query"])}
    put(labelled, PAIRS, [*pairs.values(), again], dataset="mtp/dm")
    go(labelled, combine_pairs, near=1)
    assert list(rejects(labelled, "mtp/combined")) == ["again"]
    go(labelled, mine_negatives, {"pairs": ["mtp/combined"]}, alpha=1.0, models=("one",))
    assert {row["query_id"]: row["negative_ids"] for row in rows(labelled, "mtt/1.0")}["q-t2"] == ["t4", "t1", "t5"]


def test_every_negative_is_below_alpha_times_the_positive(labelled):
    for alpha in (0.7, 0.8, 0.9):
        triplets = mined(labelled, alpha)
        assert triplets
        for row in triplets.values():
            assert max(row["negative_scores"]) < alpha * row["positive_score"]
            assert row["negative_scores"] == sorted(row["negative_scores"], reverse=True)


def test_fewer_stay_fewer_and_none_is_a_reject(labelled):
    outcome = go(labelled, mine_negatives, alpha=1.0, n_negatives=3, models=("one",))
    lengths = {row["query_id"]: len(row["negative_ids"]) for row in rows(labelled, "mtt/1.0")}
    assert lengths == {"q-t1": 3, "q-t2": 3, "q-d1": 2}
    assert outcome.counters["short_queries"] == 1 and outcome.counters["negatives"] == 8
    refused = rejects(labelled, "mtt/1.0")
    assert {query: row["reason"] for query, row in refused.items()} == {"q-t4": "no_negative"}
    assert refused["q-t4"]["detail"].startswith("no passage may be one: alpha=1.0, absolute_margin=0.0, max_score=1.0")


def test_ranks_that_no_ranking_has_are_the_callers_mistake(labelled):
    ref = resolve(labelled, Ref.parse("rankings/one"))
    manifest = load_manifest(labelled, ref)
    told = manifest.model_copy(update={"params": manifest.params | {"depth": 6}})
    labelled.replace(manifest_key(ref), told.model_dump_json().encode())
    with pytest.raises(InputError, match=f"min_rank=7 of {ref}, which has 6 ranks: lower it, or rank deeper"):
        go(labelled, mine_negatives, models=("one",), min_rank=7)


def test_a_held_out_passage_never_enters_training(labelled):
    """By id and by text, as positive or as negative, at any alpha."""
    held_out = {f"text of {p}" for p, split in SPLIT_OF.items() if split == "test"} | {"text for h1"}
    of_dev = {f"text of {p}" for p, split in SPLIT_OF.items() if split == "dev"} | {"text for d1", "text for d2"}
    for alpha in (0.75, 0.9, 1.0):
        for row in mined(labelled, alpha).values():
            texts = {row["positive"], *row["negatives"]}
            assert not texts & held_out and row["split"] in ("train", "dev")
            assert row["split"] == "dev" or not texts & of_dev
            assert row["positive_id"] not in row["negative_ids"]
            assert f"g-{row['query_id'][2:]}" not in row["negative_ids"]
            assert row["query_id"][2:] not in row["negative_ids"]
