"""Judged sets: what is in one, what is refused, and that quotes are found however a corpus is cut."""

from __future__ import annotations

import json
import unicodedata
from functools import partial
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.datasets import PAIRS, PASSAGES
from pipeline_tasks.domains.quotes import Quotes
from pipeline_tasks.evaluation.judge_queries import judge_queries
from pipeline_tasks.evaluation.read_passages import read_passages
from tests.stores import go, put, reasons, rejects, rows

SAID = "A car commonly floats for between thirty seconds and two minutes, and then it sinks nose first."

PARTS = ["A car commonly floats for between", "thirty seconds and two minutes, and", "then it sinks nose first"]
"""Half of the rows of four words: in a document that has them all over they are no quote."""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"Before. {SAID} After.", [0]),
        (SAID.replace(" ", "\n").upper(), [0]),
        ("then it sinks nose first. A car commonly floats for between thirty seconds and two", [0]),
        ("A car commonly floats for a while, and then it sinks nose first.", []),
        ("it sinks nose first.", []),
        ("A car commonly floats for between thirty 17 seconds and two minutes, and then it sinks nose first.", [0]),
        (f" {'and other words, ' * 9}".join(PARTS), []),
        ("", []),
    ],
)
def test_a_quote_is_found_where_half_of_its_words_stand_in_a_row(text, found):
    assert Quotes([SAID, "quite another sentence of this kind"]).found_in(text) == found


def test_a_letter_and_its_accent_are_one_or_two_characters():
    said = "Les pompiers évacuent d'abord les écoles, puis les hôpitaux situés près de la rivière."
    assert Quotes([said]).found_in(unicodedata.normalize("NFD", said)) == [0]


@pytest.mark.parametrize("said", ["洪水来临时请立即前往高处", "高潮の前に高台へ避難してください"])
def test_a_quote_in_a_script_without_blanks_may_begin_and_end_within_a_clause(said):
    assert Quotes([said]).found_in(f"第3章如果{said}并等待通知。") == [0] and not Quotes([said]).found_in(said[5:9])


def test_a_quote_of_two_words_must_be_whole():
    quotes = Quotes(["Turn around!", ""])
    assert quotes.found_in("turn around, do not drown") == [0]
    assert quotes.found_in("around the turn") == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A surge of only three feet can destroy a house.", []),
        ("Of only three feet can destroy docks.", []),
        ("Whoever waits: a tsunami of only three feet can destroy boats.", [0]),
        ("A tsunami of only three feet can", []),
    ],
)
def test_half_of_a_short_quote_is_not_the_quote(text, found):
    assert Quotes(["A tsunami of only three feet can destroy docks."]).found_in(text) == found


def test_held_out_queries_have_the_passage_that_they_were_written_from(store):
    put(store, PASSAGES, [{"passage_id": "p1", "text": "a"}, {"passage_id": "p2", "text": "b"}])
    pairs = [
        {"query_id": i, "query": query, "intent": "qa", "passage_id": source, "doc_id": "d", "split": split}
        for i, query, source, split in (
            ("q2", "two", "p2", "test"), ("q1", "one", "p1", "test"), ("q0", "zero", "p1", "train"),
            ("q3", "gone", "p9", "test"), ("q4", " ", "p1", "test"), ("q5", "One ", "p2", "test"),
        )
    ]  # fmt: skip
    put(store, PAIRS, pairs, dataset="mtp")
    go(store, judge_queries)
    found = rows(store, "judged/heldout")
    assert [(row["query_id"], row["passage_ids"], row["grades"]) for row in found] == [
        ("q1", ["p1", "p2"], [1, 1]),
        ("q2", ["p2"], [1]),
    ], "of one query all that its pairs name"
    assert reasons(store, "judged/heldout") == {"unknown_passage": 1, "no_passage": 1, "blank_query": 1}


def test_without_a_held_out_query_there_is_nothing_to_judge(store):
    put(store, PASSAGES, [{"passage_id": "p", "text": "a"}])
    with pytest.raises(InputError, match="there are none: run combine_pairs"):
        go(store, judge_queries)
    put(store, PAIRS, [{"query_id": "q0", "split": "train"}], dataset="mtp")
    with pytest.raises(InputError, match="no held-out query"):
        go(store, judge_queries)


def test_the_domains_questions_find_their_passages_by_what_they_quote(store, tmp_path, monkeypatch, caplog):
    domain = tmp_path / "mine"
    domain.mkdir()
    asked = [
        {"query": "how long?", "intent": "qa", "document": "d", "judgements": [
            {"grade": 1, "evidence": "cars sink nose first after a while"}, {"grade": 2, "evidence": SAID}]},
        {"query": "what else?", "intent": "qa", "document": "d", "judgements": [
            {"grade": 2, "evidence": "nobody has ever said anything of this kind"}]},
        {"query": "is it true?", "intent": "rumour", "document": "d", "judgements": [{"grade": 2, "evidence": SAID}]},
    ]  # fmt: skip
    (domain / "intents.toml").write_text('[qa]\ndefinition = "d"\ninstruction = "i"\nquery = "q"\npositive = "p"\n')
    (domain / "questions.jsonl").write_text("\n".join(json.dumps(q) for q in asked))
    monkeypatch.setattr("pipeline_tasks.evaluation.judge_queries.domain_folder", lambda: domain)
    texts = {"p1": SAID, "p2": f"Indeed cars sink nose first after a while. {SAID}", "p3": "Something else."}
    put(store, PASSAGES, [{"passage_id": i, "doc_id": "d7", "text": t, "split": "train"} for i, t in texts.items()])
    first = go(store, judge_queries, set_name="questions").ref
    assert "documents that answer a question are trained on (1)" in caplog.text
    (row,) = rows(store, "judged/questions")
    assert (row["doc_id"], row["query"], row["passage_ids"], row["grades"]) == ("d7", "how long?", ["p1", "p2"], [2, 2])
    assert {(r["reason"], r["detail"]) for r in rejects(store, "judged/questions").values()} == {
        ("no_passage", "what else?"),
        ("unknown_intent", "rumour: the domain has qa"),
    }
    (domain / "questions.jsonl").write_text(json.dumps(asked[0] | {"query": "how many minutes?"}))
    assert go(store, judge_queries, set_name="questions").ref != first, "other questions are another set"


def test_a_question_that_two_intents_ask_has_the_judgements_of_each_apart(store, tmp_path, monkeypatch):
    domain, other = tmp_path / "mine", "The levee held until the morning, and nobody in the valley had to leave."
    domain.mkdir()
    intents = [
        f'[{name}]\ndefinition = "d"\ninstruction = "i"\nquery = "q"\npositive = "p"\n' for name in ("qa", "nli")
    ]
    (domain / "intents.toml").write_text("\n".join(intents))
    asked = [
        {"query": "how long?", "intent": intent, "document": "d", "judgements": [{"grade": grade, "evidence": text}]}
        for intent, grade, text in (("qa", 2, SAID), ("nli", 1, other))
    ]
    (domain / "questions.jsonl").write_text("\n".join(map(json.dumps, asked)))
    monkeypatch.setattr("pipeline_tasks.evaluation.judge_queries.domain_folder", lambda: domain)
    texts = {"p1": ("d1", SAID), "p2": ("d2", other), "p3": ("d3", SAID)}
    put(store, PASSAGES, [{"passage_id": i, "doc_id": doc, "text": text} for i, (doc, text) in texts.items()])
    go(store, judge_queries, set_name="questions")
    found = {row["intent"]: row for row in rows(store, "judged/questions")}
    assert {i: (row["doc_id"], row["passage_ids"], row["grades"]) for i, row in found.items()} == {
        "qa": ("", ["p1", "p3"], [2, 2]),  # what several documents answer outlives the erasure of one
        "nli": ("d2", ["p2"], [1]),
    }


def spoilt(name: str, content: bytes, path: Path) -> None:
    (path / name).write_bytes(content)


def test_a_mark_of_byte_order_quotes_and_blank_lines_are_no_part_of_a_judgement(store, tmp_path):
    path = tmp_path / "set"
    queries = [{"_id": 'a"', "text": "y"}]
    given = {"set_name": "mine", "folder": folder(path, [{"_id": "1", "text": "x"}], queries, "")}
    spoilt("qrels/test.tsv", '\ufeffa"\t1\t1\n\n'.encode(), path)
    go(store, read_passages, **given)
    go(store, judge_queries, {"passages": ["corpus/mine"]}, **given)
    assert [row["grades"] for row in rows(store, "judged/mine")] == [[1]]


def folder(path: Path, corpus: list[dict], queries: list[dict], qrels: str) -> str:
    (path / "qrels").mkdir(parents=True)
    for name, lines in (("corpus", corpus), ("queries", queries)):
        (path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    (path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + qrels)
    return str(path)


@pytest.mark.parametrize("values", [{"set_name": "mine"}, {"set_name": "heldout", "folder": "/tmp"}])
def test_only_a_set_of_others_has_a_folder(store, values):
    put(store, PASSAGES, [{"passage_id": "p", "text": "a"}])
    with pytest.raises(InputError, match=r"own sets \(heldout, questions\) have no folder, others one"):
        go(store, judge_queries, **values)


def test_a_folder_is_read_and_what_cannot_be_scored_is_a_reject(store, tmp_path):
    corpus = [
        {"_id": 7, "title": "Floods", "text": "water rises"}, {"_id": "8", "text": "fire"},
        {"_id": "8", "text": "fire again"}, {"_id": "9", "text": " "},
        {"_id": "10", "text": None},
    ]  # fmt: skip
    queries = [
        {"_id": "a", "text": "water?", "intent": "qa"}, {"_id": "b", "text": "fire?"}, {"_id": "c", "text": "of dev"},
        {"_id": "d", "text": ""}, {"_id": "e", "text": "nothing relevant"}, {"_id": "f", "text": "dangling"},
        {"_id": "g", "text": "true?", "intent": "rumour"}, {"_id": "h", "text": None},
    ]  # fmt: skip
    qrels = "g\t7\t1\na\t7\t2\na\t8\t0\nb\t8\t1\nb\t99\t1\nd\t7\t1\ne\t7\t0\nf\t98\t1\nh\t7\t1\nz\t7\t1\n"
    given = {"set_name": "mine", "folder": folder(tmp_path / "set", corpus, queries, qrels)}
    go(store, read_passages, with_title=True, **given)
    assert {row["passage_id"]: row["text"] for row in rows(store, "corpus/mine")} == {
        "7": "Floods water rises",
        "8": "fire",
    }
    assert reasons(store, "corpus/mine") == {"duplicate_id": 1, "blank_text": 2}
    outcome = go(store, judge_queries, {"passages": ["corpus/mine"]}, **given)
    found = {row["query_id"]: row for row in rows(store, "judged/mine")}
    assert {i: (row["intent"], row["passage_ids"], row["grades"]) for i, row in found.items()} == {
        "a": ("qa", ["7", "8"], [2, 0]),
        "b": ("any", ["8"], [1]),
    }
    assert reasons(store, "judged/mine") == {
        "unknown_passage": 2,
        "unknown_query": 1,
        "unknown_intent": 1,
        "blank_query": 2,
        "no_passage": 2,
    }
    assert outcome.counters["queries_unjudged"] == 1


def test_text_to_learn_from_needs_no_judgements(store, tmp_path):
    place = tmp_path / "general"
    place.mkdir()
    given = {"set_name": "general", "folder": str(place), "trains": True}
    with pytest.raises(InputError, match=r"general has no corpus\.jsonl"):
        go(store, read_passages, **given)
    (place / "corpus.jsonl").write_text('{"_id": "1", "text": "water rises"}\n')
    with pytest.raises(InputError, match="without judgements nothing is scored"):
        go(store, read_passages, **given | {"trains": False})
    go(store, read_passages, **given)
    assert [(row["text"], row["split"]) for row in rows(store, "corpus/general")] == [("water rises", "train")]


def test_the_same_files_elsewhere_are_the_same_version(store, tmp_path):
    made = [
        go(
            store, read_passages, set_name="mine", folder=folder(tmp_path / name, [{"_id": "1", "text": "a"}], [], "")
        ).ref
        for name in ("one", "other")
    ]
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda path: (path / "qrels" / "test.tsv").unlink(), "neither qrels/test.tsv nor qrels.tsv"),
        (lambda path: (path / "corpus.jsonl").unlink(), "has no corpus.jsonl"),
        (lambda path: (path / "queries.jsonl").write_text('{"_id": 1}'), "queries.jsonl, line 1: no object with _id"),
        (
            lambda path: (path / "queries.jsonl").write_text('{"_id": null, "text": "y"}'),
            "queries.jsonl, line 1: no object with _id",
        ),
        (lambda path: (path / "qrels" / "test.tsv").write_text("a b c\n"), "test.tsv, line 1: not query-id"),
        *(
            (partial(spoilt, name, content), message)
            for name, content, message in (
                ("queries.jsonl", '{"_id": "a", "text": "é"}'.encode("latin-1"), "queries.jsonl is not UTF-8 "),
                ("queries.jsonl", b'{"_id": "a", "text": "half \\ud800"}', "queries.jsonl, line 1: no object"),
                ("queries.jsonl", b'{"_id": "a", "text": ["y"]}', "queries.jsonl, line 1: no object"),
                (
                    "queries.jsonl",
                    b'{"_id": "a", "text": "y", "intent": "\\ud83d"}',
                    "queries.jsonl, line 1: no object.*ud83d",
                ),
                (
                    "queries.jsonl",
                    b'{"_id": "a", "text": "y", "intent": ["qa"]}',
                    "line 1: .*intent.*'qa'.* is no text",
                ),
                ("queries.jsonl", b"[1]", "queries.jsonl, line 1: no object"),
                ("queries.jsonl", b"[" * 99_999, "queries.jsonl, line 1: no object"),
                ("qrels/test.tsv", "é\t1\t1\n".encode("latin-1"), "test.tsv is not UTF-8 .*: write it as UTF-8"),
                ("qrels/test.tsv", b"a\t1\t-99999999999\n", "test.tsv, line 1: not query-id.*whole score up to 1000"),
                ("qrels/test.tsv", b'"q1\t1\t1\n"q2\t1\n', "test.tsv, line 2: not query-id"),
            )
        ),
        (partial(spoilt, "queries.jsonl", b"\n"), "set has no query: queries.jsonl is empty"),
        (partial(spoilt, "qrels/test.tsv", b"\n"), "is judged: its qrels are empty"),
        (partial(spoilt, "queries.jsonl", b'{"_id": "b", "text": "y"}'), "no query of .*set is judged: its qrels"),
        (
            partial(spoilt, "queries.jsonl", b'{"_id": "a", "text": "y", "intent": "rumour"}'),
            "does not have, rumour; it has qa, .*: name the domain of these queries in FOUNDRY_DOMAIN",
        ),
        (lambda path: (path / "qrels" / "test.tsv").write_text("a\t1\t0\n"), "no query has a passage that answers it"),
    ],
)
def test_a_broken_folder_is_an_error_that_names_the_place(store, tmp_path, break_it, message):
    path = folder(tmp_path / "set", [{"_id": "1", "text": "x"}], [{"_id": "a", "text": "y"}], "a\t1\t1\n")
    given = {"set_name": "mine", "folder": path}
    go(store, read_passages, **given)
    break_it(Path(path))
    with pytest.raises(InputError, match=message):
        go(store, judge_queries, {"passages": ["corpus/mine"]}, **given)


def test_a_title_that_no_table_can_hold_is_an_error_that_names_the_place(store, tmp_path):
    """As of a title that was cut in the middle of an emoji."""
    path = tmp_path / "set"
    given = {"set_name": "mine", "folder": folder(path, [{"_id": "1", "text": "x", "title": None}], [], "")}
    go(store, read_passages, **given)
    assert [row["title"] for row in rows(store, "corpus/mine")] == [""]
    spoilt("corpus.jsonl", b'{"_id": "1", "text": "x", "title": "storm \\ud83c"}', path)
    for with_title in (False, True):
        with pytest.raises(InputError, match=r"corpus\.jsonl, line 1: no object .*title.*ud83c"):
            go(store, read_passages, with_title=with_title, **given)
