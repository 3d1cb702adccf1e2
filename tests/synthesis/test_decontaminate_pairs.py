from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import load_manifest
from pipeline_tasks.datasets import INSTRUCTED_PAIRS, JUDGED_QUERIES, PAIRS, PASSAGES
from pipeline_tasks.synthesis import decontaminate_pairs as module
from pipeline_tasks.synthesis.decontaminate_pairs import decontaminate_pairs
from pipeline_tasks.synthesis.decontaminate_tasks import decontaminate_tasks
from tests.stores import go, put, rejects, rows

QUESTION = "How long should a household boil water from a private well after a flood before it is safe to drink?"
PAGE = " ".join(f"page{i}" for i in range(60))
ANSWER = " ".join(f"answer{i}" for i in range(60))
SHORT = "Turn off the gas at the meter before you leave home."
UNJUDGED = " ".join(f"unjudged{i}" for i in range(60))
HELD_OUT = " ".join(f"held{i}" for i in range(60))
QUOTING = " ".join([*PAGE.split()[:20], *(f"other{i}" for i in range(60))])


def pair(name: str, query: str = "", positive: str = "", passage: str = "", split: str = "train") -> dict:
    texts = {"query": query or f"query {name}", "positive": positive or f"positive {name}", "passage": passage}
    return {"query_id": name, "split": split} | texts


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    domain = tmp_path / "domain"
    domain.mkdir()
    asked = {"query": "Who opens the shelter?", "intent": "qa", "document": "d"}
    judgements = [{"grade": grade, "evidence": said} for grade, said in ((2, ANSWER), (1, SHORT), (0, UNJUDGED))]
    (domain / "questions.jsonl").write_text(json.dumps(asked | {"judgements": judgements}) + "\n")
    monkeypatch.setattr(module, "domain_folder", lambda: domain)
    judged = {"query_id": "j", "query": QUESTION, "passage_ids": ["p", "u"], "grades": [1, 0]}
    put(store, JUDGED_QUERIES, [judged], dataset="judged/wells")
    put(
        store,
        PASSAGES,
        [{"passage_id": "p", "text": PAGE}, {"passage_id": "u", "text": UNJUDGED}],
        dataset="corpus/wells",
    )
    return store


def gate(store: LocalStore, *pairs: dict, **params: object) -> dict[str, tuple[str, str]]:
    """Refused pairs: reason, and the sets that the detail names."""
    held_out = pair("t", "Is the levee road open to school buses today?", passage=HELD_OUT, split="test")
    put(store, PAIRS, [pair("clean"), held_out], list(pairs), dataset="mtp/combined")
    go(store, decontaminate_pairs, sets=("wells",), **params)
    kept = {row["query_id"] for row in rows(store, "mtp")}
    refused = rejects(store, "mtp")
    assert kept == {"clean", "t", *(row["query_id"] for row in pairs)} - refused.keys() and {"clean", "t"} <= kept
    return {name: (row["reason"], row["detail"].partition(": ")[0]) for name, row in refused.items()}


def test_a_copy_is_refused_and_named_by_its_set_and_its_kind(store):
    found = gate(
        store,
        pair("a", QUESTION),
        pair("b", QUESTION.lower().rstrip("?")),
        pair("c", "Tell me: " + " ".join(QUESTION.split()[:13])),
        pair("d", "before flood: " + " ".join(reversed(QUESTION.split()[:18]))),
        pair("e", " ".join(reversed(QUESTION.split()))),
        pair("f", "who opens the SHELTER"),
        pair("g", "is the levee road open to school buses, today"),
        pair("h", positive=PAGE),
        pair("i", passage=PAGE.upper()),
        pair("k", positive="so: " + " ".join(PAGE.split()[:40])),
        pair("l", passage=HELD_OUT),
        pair("m", positive=f"{UNJUDGED} {ANSWER}"),
        pair("n", positive=UNJUDGED, passage=QUOTING),
        max_contaminated=1,
    )
    assert found == {
        "a": ("query_exact", "wells"),
        "b": ("query_normalised", "wells"),
        "c": ("query_13gram", "wells"),
        "e": ("query_near", "wells"),
        "f": ("query_normalised", "questions"),
        "g": ("query_normalised", "heldout"),
        "h": ("passage_exact", "wells"),
        "i": ("passage_normalised", "wells"),
        "k": ("passage_13gram", "wells"),
        "l": ("passage_exact", "heldout"),
        "m": ("passage_13gram", "questions"),
    }


def test_which_passages_and_how_much_of_them_is_for_the_caller_to_say(store):
    pairs = pair("answers", positive=PAGE), pair("unjudged", positive=UNJUDGED), pair("quotes", passage=QUOTING)
    assert gate(store, *pairs).keys() == {"answers"}
    assert gate(store, *pairs, passages="all").keys() == {"answers", "unjudged"}
    assert gate(store, *pairs, passages="none").keys() == set()
    assert gate(store, *pairs, passage_share=0).keys() == {"answers", "quotes"}
    asked = pair("asked", "Who opens the shelter?")
    assert gate(store, asked).keys() == {"asked"} and gate(store, asked, questions=False) == {}


def test_it_stops_where_more_is_contaminated_than_may_be(store):
    with pytest.raises(InputError, match=r"11 of the 12 pairs .* max_contaminated=0.05 .*11 wells/query_exact"):
        gate(store, *(pair(f"copy{i}", QUESTION) for i in range(11)))
    with pytest.raises(InputError, match="is not in the store"):
        gate(store)
        go(store, decontaminate_pairs, sets=("wells", "fires"))
    with pytest.raises(InputError, match="'heldout' is looked at in any case"):
        go(store, decontaminate_pairs, sets=("heldout",))


def test_another_limit_recomputes_nothing_and_other_questions_leave_the_parts_as_they_are(store):
    put(store, PAIRS, [pair("a", QUESTION)], [pair("b")], dataset="mtp/combined")
    first = go(store, decontaminate_pairs, sets=("wells",))
    assert first.counters["contaminated/wells/query_exact"] == 1 and first.counters["pairs_checked"] == 2
    again = go(store, decontaminate_pairs, sets=("wells",), max_contaminated=0.5)
    assert (again.ref, again.reused) == (first.ref, True)
    fewer = go(store, decontaminate_pairs, sets=("wells",), questions=False)
    assert fewer.ref != first.ref
    parts = [load_manifest(store, ref).parts for ref in (first.ref, fewer.ref)]
    assert parts[0] == parts[1], "what is embedded stays embedded"


def test_queries_with_a_task_pass_the_same_gate_and_keep_it(store):
    rows_given = [pair("clean") | {"instruction": "Find what helps."}, pair("a", QUESTION) | {"instruction": "Search."}]
    put(store, INSTRUCTED_PAIRS, rows_given, dataset="mtp/fret")
    go(store, decontaminate_tasks, sets=("wells",))
    kept = {row["query_id"]: row["instruction"] for row in rows(store, "mtp/fret/checked")}
    assert kept == {"clean": "Find what helps."}
    assert {name: row["reason"] for name, row in rejects(store, "mtp/fret/checked").items()} == {"a": "query_exact"}


def test_queries_with_a_task_are_no_copies_of_the_held_out_queries_that_models_are_scored_on(store):
    put(store, INSTRUCTED_PAIRS, [pair("clean"), pair("a", "which valley floods first")], dataset="mtp/fret")
    put(store, PAIRS, [pair("h", "Which valley floods first?") | {"split": "test"}], dataset="mtp")
    go(store, decontaminate_tasks)
    assert {name: row["reason"] for name, row in rejects(store, "mtp/fret/checked").items()} == {
        "a": "query_normalised"
    }


def test_a_short_quote_is_found_whole_in_a_longer_passage_and_a_short_query_may_stand_in_a_longer_one(store):
    few, part = " ".join(SHORT.split()[:7]), " ".join(SHORT.split()[:-1])
    found = gate(
        store,
        pair("a", passage=f"{UNJUDGED} {SHORT} {UNJUDGED}"),
        pair("b", positive=f"Listen to the radio, {SHORT.lower()}"),
        pair("c", positive=f"{UNJUDGED} {few}", passage=f"{part} {UNJUDGED}"),
        pair("d", "Is the levee road open to school buses today, or is it closed to all of them?"),
    )
    assert found == dict.fromkeys("ab", ("passage_13gram", "questions"))
