"""Pairs that were read before their passages went, or became those of another side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import resolve
from pipeline_tasks.datasets import PAIRS, PASSAGES
from pipeline_tasks.synthesis.combine_pairs import combine_pairs
from pipeline_tasks.synthesis.read_pairs import read_pairs
from tests.stores import go, put, rejects, rows


def passages(store: LocalStore, **splits: str) -> None:
    found = [{"passage_id": name, "doc_id": "d", "text": f"of {name}", "split": side} for name, side in splits.items()]
    put(store, PASSAGES, found[:1], found[1:])


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """Pairs of four passages and of none, one of which became a test passage, one a training passage, one went."""
    store = LocalStore(tmp_path / "store")
    passages(store, stays="train", held_out="train", back="test", gone="dev")
    asked = [{"query": f"{name}?", "passage_id": name} for name in ("held_out", "stays", "back", "gone")]
    asked += [{"query": "none?", "positive": "of none"}, {"query": "Held_out?", "positive": "x", "passage_id": "stays"}]
    (tmp_path / "faq.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    go(store, read_pairs, source=str(tmp_path / "faq.jsonl"), dev_fraction=0)
    passages(store, stays="train", held_out="test", back="train")
    return store


def test_a_pair_on_another_side_than_its_passage_is_refused(store):
    dm = {"query_id": "q", "query": "mine?", "intent": "qa", "origin": "dm", "passage_id": "elsewhere"}
    put(store, PAIRS, [dm], dataset="mtp/dm")
    made = go(store, combine_pairs, own=["faq"])
    assert [row["query"] for row in rows(store, "mtp/combined")] == ["mine?", "stays?", "none?", "Held_out?"]
    assert made.counters["pairs_read/faq/qa"] == 6 and made.counters["pairs_kept/faq/qa"] == 3
    found = sorted((row["reason"], row["detail"]) for row in rejects(store, "mtp/combined").values())
    assert found == [
        ("other_side", "back: its split is train, the pair's is test"),
        ("other_side", "held_out: its split is test, the pair's is train"),
        ("unknown_passage", "gone: its split is not known, the pair's is dev"),
    ]


def test_pairs_that_are_read_again_are_on_the_side_of_their_passage(store, tmp_path):
    go(store, read_pairs, source=str(tmp_path / "faq.jsonl"), dev_fraction=0)
    go(store, combine_pairs, own=["faq"])
    found = {row["query"]: row["split"] for row in rows(store, "mtp/combined")}
    assert found == dict.fromkeys(("stays?", "back?", "none?"), "train") | {"held_out?": "test"}
    assert [row["reason"] for row in rejects(store, "mtp/combined").values()] == ["duplicate_query"], "of another side"


def test_what_queries_are_compared_by_is_found_again_where_the_passages_alone_are_others(store):
    put(store, PAIRS, [{"query_id": "q", "query": "mine?", "intent": "qa", "origin": "dm"}], dataset="mtp/dm")
    go(store, combine_pairs, own=["faq"])
    passages(store, stays="train", held_out="test", back="test")
    assert go(store, combine_pairs, own=["faq"]).counters["partitions_reused"] == 2 * 2, "hashes and keys of two shards"
    assert "back?" in {row["query"] for row in rows(store, "mtp/combined")}


def own(store: LocalStore, name: str, *pairs: dict, corpus: str = "passages") -> None:
    """Pairs of your own, read with the passages of ``corpus`` as they are now."""
    found = [{"query_id": f"{name}{n}", "intent": "qa", "split": "train"} | pair for n, pair in enumerate(pairs)]
    put(store, PAIRS, found, dataset=f"mtp/own/{name}", passages=resolve(store, Ref.parse(corpus)))


def combined(store: LocalStore, **given: list[str]) -> tuple[list[str], dict[str, str]]:
    go(store, combine_pairs, {"own": ["mtp/own/faq", "mtp/own/logs"]} | given)
    refused = {name: row["reason"] for name, row in rejects(store, "mtp/combined").items()}
    return [row["query_id"] for row in rows(store, "mtp/combined")], refused


@pytest.mark.parametrize(("origin", "query"), [("x", "how deep?"), ("dm", "how deep is it, then, is it deep?")])
def test_a_pair_that_is_refused_as_moved_is_nobodys_first(store, origin, query):
    other = query.upper() if origin == "x" else f"then {query.replace(', then', '')}"
    own(store, "faq", {"query": query, "passage_id": "gone", "origin": origin})
    own(store, "logs", {"query": other, "passage_id": "stays", "origin": origin + "y" * (origin == "x")})
    assert combined(store) == (["logs0"], {"faq0": "unknown_passage"})


def test_a_query_stays_with_its_passages_where_its_first_one_moved(store):
    sides = {"held_out": "train", "stays": "train", "back": "train"}
    asked = [{"query": "deep?", "origin": "faq", "passage_id": name, "split": sides[name]} for name in sides]
    asked[0] |= {"split": "train"}
    own(store, "faq", *asked)
    own(store, "logs")
    assert combined(store) == (["faq1", "faq2"], {"faq0": "other_side"})


def test_pairs_are_compared_with_the_passages_that_they_were_read_with(store):
    put(store, PASSAGES, [{"passage_id": "mine", "split": "train"}], dataset="corpus/mine")
    own(store, "faq", {"query": "a", "passage_id": "mine"}, {"query": "b", "passage_id": "lost"}, corpus="corpus/mine")
    own(store, "logs", {"query": "c", "passage_id": "mine"}, {"query": "d", "passage_id": "stays"})
    expected = (["faq0", "logs1"], {"faq1": "unknown_passage", "logs0": "unknown_passage"})
    assert combined(store) == expected == combined(store, passages=["passages"])
    assert combined(store, passages=[])[1] == {}, "the caller says that there are none"


def test_passages_that_are_given_stand_for_the_latest(store):
    older = str(resolve(store, Ref.parse("passages")))
    passages(store, stays="test")
    own(store, "faq", {"query": "a", "passage_id": "stays"})
    own(store, "logs")
    assert combined(store, passages=[older]) == (["faq0"], {})
    assert combined(store) == ([], {"faq0": "other_side"})
