"""Judged queries with instructions: what rules promise of them, and FollowIR's own layout."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import JUDGED_QUERIES, PASSAGES
from pipeline_tasks.evaluation import systems
from pipeline_tasks.evaluation.altered_instructions import RULES, words_of
from pipeline_tasks.evaluation.evaluate_instructions import evaluate_instructions
from pipeline_tasks.evaluation.evaluate_retriever import evaluate_retriever
from pipeline_tasks.evaluation.judge_instructions import judge_instructions
from pipeline_tasks.evaluation.p_mrr import changed
from pipeline_tasks.evaluation.scores import scores_of
from tests.evaluation.test_judged_sets import folder
from tests.stores import go, put, reasons, rejects, rows

TEXTS = {
    "p1": "Sandbags hold back water where levees were built.",
    "p2": "Sandbags hold back water in basements.",
    "p3": "Pumps move water out of basements.",
    "p4": "Ash falls on roofs.",
    "p5": "Pumps are loud; sandbags are not.",
}
WORDS = sorted(set().union(*map(words_of, TEXTS.values())))
GRADES = {"p1": 1, "p2": 2, "p3": 1, "p4": 0, "p5": 0}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    put(store, PASSAGES, [{"passage_id": i, "text": text} for i, text in TEXTS.items()])
    facts = {"intent": "qa", "doc_id": ""}
    asked = [
        {"query_id": "q", "query": "what stops water", "passage_ids": [*GRADES], "grades": [*GRADES.values()]} | facts,
        {"query_id": "r", "query": "ash?", "passage_ids": ["p4"], "grades": [1]} | facts,
    ]
    put(store, JUDGED_QUERIES, asked, dataset="judged/mine")
    return store


def told(row: dict) -> list[dict[str, int]]:
    return [dict(zip(row["passage_ids"], row[name], strict=True)) for name in ("grades", "changed_grades")]


def test_what_an_instruction_by_rule_excludes_or_includes_can_be_read_off_the_texts(store):
    go(store, judge_instructions, set_name="mine")
    found = {row["query_id"]: row for row in rows(store, "instructed/mine")}
    assert [*found] == ["q/also", "q/only", "q/without"]
    assert reasons(store, "instructed/mine") == {"nothing_changes": 1}
    word = found["q/only"]["changed_instruction"].split('"')[1]
    having = {name for name, text in TEXTS.items() if word in words_of(text)}
    other = found["q/also"]["changed_instruction"].split('"')[3]
    for rule, kept in (("without", TEXTS.keys() - having), ("only", having)):
        before, after = told(found[f"q/{rule}"])
        assert before == GRADES
        assert after == {name: grade * (name in kept) for name, grade in GRADES.items()}
        assert set(changed(before, after).values()) == {1} and any(after.values())
    before, after = told(found["q/also"])
    assert before == told(found["q/only"])[1] and set(changed(before, after).values()) == {-1}
    assert all(other in TEXTS[name].lower() for name in changed(before, after))
    assert all(f'"{word}"' in row["changed_instruction"] for row in found.values())


def test_a_rule_alone_makes_its_own_instructions(store):
    go(store, judge_instructions, set_name="mine", rules=["only"])
    assert [row["query_id"] for row in rows(store, "instructed/mine")] == ["q/only"]
    assert RULES == ("without", "only", "also")


def followir(path: Path, instructions: dict[str, str]) -> str:
    """A folder in FollowIR's layout: two queries, of which the second is there once alone."""
    corpus = [{"_id": i, "text": text} for i, text in TEXTS.items()]
    queries = [{"_id": i, "text": "what stops water"} for i in ("7-og", "7-changed", "8-og")]
    made = folder(path, corpus, queries, "7-og\tp1\t1\n7-og\tp3\t1\n7-changed\tp1\t0\n7-changed\tp3\t1\n8-og\tp1\t1\n")
    lines = [json.dumps({"query-id": name, "instruction": text}) for name, text in instructions.items()]
    (path / "instruction.jsonl").write_text("\n".join(lines))
    return made


def test_a_folder_of_followir_brings_its_own_instructions(store, tmp_path):
    name = followir(tmp_path / "set", {"7-og": "Anything.", "7-changed": "No sandbags.", "8-og": "Anything."})
    ref = go(store, judge_instructions, set_name="core17", folder=name).ref
    (row,) = rows(store, "instructed/core17")
    assert (row["query_id"], row["instruction"], row["changed_instruction"]) == ("7", "Anything.", "No sandbags.")
    assert changed(*told(row)) == {"p1": 1}
    assert reasons(store, "instructed/core17") == {"not_paired": 1}
    followir(tmp_path / "other", {"7-og": "Anything.", "7-changed": "No bags.", "8-og": "Anything."})
    assert go(store, judge_instructions, set_name="core17", folder=str(tmp_path / "other")).ref != ref


def test_of_two_queries_of_one_id_the_first_counts(store, tmp_path):
    name = followir(tmp_path / "set", {"7-og": "Anything.", "7-changed": "No sandbags."})
    marked = tmp_path / "set" / "instruction.jsonl"
    marked.write_text("\ufeff" + marked.read_text(), "utf-8")
    with (tmp_path / "set" / "queries.jsonl").open("a") as more:
        more.write(json.dumps({"_id": "7-changed", "text": "other words"}) + "\n")
    go(store, judge_instructions, set_name="core17", folder=name)
    (row,) = rows(store, "instructed/core17")
    assert row["query_id"] == "7" and row["query"] != "other words"
    assert reasons(store, "instructed/core17") == {"duplicate_id": 1, "not_paired": 1}


def test_what_a_folder_of_followir_lacks_is_told_query_by_query(store, tmp_path):
    told = {"7-og": "Anything.", "7-changed": None, "8-og": "A.", "8-changed": "B.", "9-og": "A.", "9-changed": "B."}
    told |= {"10-og": "A.", "10-changed": "B.", "11-og": "A.", "11-changed": "B."}
    texts = {"9-og": " ", "9-changed": " ", "10-changed": "another"}
    asked = [{"_id": name, "text": texts.get(name, "what stops water")} for name in told]
    qrels = "".join(f"{name}\tp1\t{int(name.endswith('og'))}\n" for name in told if name != "8-changed")
    name = folder(tmp_path / "set", [{"_id": "p1", "text": "a"}], asked, qrels)
    lines = [json.dumps({"query-id": name, "instruction": text}) for name, text in told.items()]
    (tmp_path / "set" / "instruction.jsonl").write_text("\n\n".join(lines) + "\n\n")
    go(store, judge_instructions, set_name="core17", folder=name)
    assert [row["query_id"] for row in rows(store, "instructed/core17")] == ["11"]
    assert {name: row["reason"] for name, row in rejects(store, "instructed/core17").items()} == {
        "7": "no_instruction", "8": "not_paired", "9": "blank_query", "10": "not_paired",
    }  # fmt: skip


def test_where_each_query_has_one_passage_rules_have_nothing_to_change(store):
    row = {"query_id": "q", "query": "ash?", "passage_ids": ["p4"], "grades": [1], "intent": "qa", "doc_id": ""}
    put(store, JUDGED_QUERIES, [row], dataset="judged/heldout")
    with pytest.raises(InputError, match=r"held-out ones never have; judge set_name=questions"):
        go(store, judge_instructions)


def test_a_folder_without_instructions_is_refused(store, tmp_path):
    name = folder(tmp_path / "plain", [{"_id": "p1", "text": "a"}], [{"_id": "1", "text": "b"}], "1\tp1\t1\n")
    with pytest.raises(InputError, match=r"has no instruction\.jsonl"):
        go(store, judge_instructions, set_name="mine", folder=name)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"query-id": "1-og", "instruction": "é"}'.encode("latin-1"), " is not UTF-8 .*: write it as UTF-8"),
        (b"\n" + b"[" * 99_999, ", line 2: no object with query-id and instruction"),
        (b'{"query-id": "1-og", "instruction": "half \\ud800"}', ", line 1: no object with query-id and instruction"),
        (b'{"query-id": "1-og"}', ", line 1: no object with query-id and instruction"),
    ],
)
def test_instructions_that_cannot_be_read_are_an_error_that_names_the_place(store, tmp_path, content, message):
    name = folder(tmp_path / "set", [{"_id": "p1", "text": "a"}], [{"_id": "1-og", "text": "b"}], "1-og\tp1\t1\n")
    (tmp_path / "set" / "instruction.jsonl").write_bytes(content)
    with pytest.raises(InputError, match=rf"instruction\.jsonl{message}"):
        go(store, judge_instructions, set_name="mine", folder=name)


class Obedient:
    """Stands for an encoder that reads instructions: it finds what mentions the words that these name first."""

    def __init__(self):
        self.costs, self.responses = Counter(), set()

    def encode_passages(self, texts):
        return np.array([[word in words_of(text) for word in WORDS] for text in texts], np.float32)

    def encode_queries(self, texts, intents, instructions):
        signs = [-1.0 if "are not relevant" in told else 1.0 for told in instructions]
        named = [[word in told for word in WORDS] for told in instructions]
        return np.array(signs, np.float32)[:, None] * np.array(named, np.float32)


def test_who_follows_an_instruction_scores_above_0_and_who_does_not_hear_it_scores_0(store, monkeypatch):
    go(store, judge_instructions, set_name="mine")
    monkeypatch.setattr(systems, "encoder_of_folder", lambda name: Obedient())
    monkeypatch.setattr(systems, "identity", lambda name: {"name": name})
    monkeypatch.setattr(systems, "written", lambda name: name)
    alone = {"size": "", "models": [], "systems": ["bm25", "./obedient"]}
    ref = go(store, evaluate_instructions, {"models": []}, set_name="mine", **alone).ref
    found = scores_of(Version.open(store, ref), "p-mrr").by_system
    assert set(found["bm25"].values()) == {0.0}
    assert found["./obedient"]["q/without"] > 0 < found["./obedient"]["q/also"]
    (row,) = [row for row in rows(store, "eval/mine-instructions") if row["evaluation_id"] == "./obedient/q/only"]
    assert {name for name, _ in row["scores"]} == {
        "p-mrr", "ndcg@5", "map@1000", "ndcg@5-changed", "map@1000-changed",
    }  # fmt: skip
    assert len(row["passage_ids"]) == len(TEXTS)


def test_p_mrr_is_the_same_whatever_else_is_measured(store, monkeypatch):
    go(store, judge_instructions, set_name="mine")
    monkeypatch.setattr(systems, "encoder_of_folder", lambda name: Obedient())
    monkeypatch.setattr(systems, "identity", lambda name: {"name": name})
    monkeypatch.setattr(systems, "written", lambda name: name)
    alone = {"size": "", "models": [], "systems": ["./obedient"], "kept": 1}
    found = []
    for measures in (["map@1000"], ["ndcg@1"]):
        ref = go(store, evaluate_instructions, {"models": []}, set_name="mine", **alone, measures=measures).ref
        found.append(scores_of(Version.open(store, ref), "p-mrr").by_system)
    assert found[0] == found[1]


def test_queries_of_another_set_are_refused(store):
    """Scores of one set under the name of another would be compared with those of that one."""
    go(store, judge_instructions, set_name="mine")
    alone = {"size": "", "models": [], "systems": ["bm25"]}
    for evaluate, queries in ((evaluate_retriever, "judged/mine"), (evaluate_instructions, "instructed/mine")):
        with pytest.raises(InputError, match=f"set_name='heldout' and the queries are {queries}: name that set"):
            go(store, evaluate, {"models": [], "queries": [queries]}, **alone)
    with pytest.raises(InputError, match="set_name='heldout' and the queries are judged/mine"):
        go(store, judge_instructions, {"queries": ["judged/mine"]})
