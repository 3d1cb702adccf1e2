"""The general-domain sets of the paper, from small files in the layouts that they have on the hub."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PAIRS
from pipeline_tasks.synthesis.combine_pairs import combine_pairs
from pipeline_tasks.synthesis.files.found_pairs import in_parts
from pipeline_tasks.synthesis.files.general_sets import general_sets
from pipeline_tasks.synthesis.read_general_pairs import read_general_pairs
from pipeline_tasks.synthesis.read_pairs import read_pairs
from tests.stores import go, put, reasons, rows
from tests.synthesis.general_files import N, columns, lines, packed, parquet, plant, texts

BY_INTENT = {"qa": 5 * N, "qadoc": 3 * N, "twitter": N, "factcheck": N, "sts": 3 * N, "nli": 2 * N}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("general")
    plant(root)
    return root


def test_the_paper_has_fifteen_sets_of_nearly_twelve_million_pairs():
    sets = general_sets()
    assert len(sets) == 15
    assert sum(one.pairs for one in sets.values()) == 11_748_600
    assert {one.layout for one in sets.values()} == {"seen", "told"}
    assert all(len(one.revision) in (0, 40) for one in sets.values())


def test_every_layout_gives_its_pairs_their_intent_and_origin(store, files):
    outcome = go(store, read_general_pairs, source=str(files))
    found = rows(store, "mtp/gd")
    assert Counter(row["intent"] for row in found) == BY_INTENT
    assert Counter(row["origin"] for row in found) == dict.fromkeys((f"gd/{name}" for name in general_sets()), N)
    assert {row["split"] for row in found} == {"train"} and {row["passage_id"] for row in found} == {""}
    assert outcome.counters["pairs/gd/fever/factcheck"] == N
    assert outcome.counters["not_of_the_set/gd/xnli"] == N and outcome.counters["not_answered/gd/msmarco"] == 1
    assert not reasons(store, "mtp/gd")
    texts_of = {(row["origin"], row["query"]): row["positive"] for row in found}
    assert texts_of["gd/squad", "what is squad no3?"] == "squad is the number no3"
    assert texts_of["gd/nfcorpus", "what is nfcorpus no1?"] == "A title nfcorpus is the number no1"
    assert texts_of["gd/hotpotqa", "what is hotpotqa no2?"] == "hotpotqa is the number no2"
    assert texts_of["gd/xnli", "p of 4"] == "h of 4", "label 0 is entailment"
    long = texts_of["gd/msmarco_documents", "what is doc no4?"]
    assert (
        long.startswith('A "title doc is the number no4 xxx') and len(long) == general_sets()["msmarco_documents"].cut
    )
    sts = [row for row in found if row["origin"] == "gd/altlex"]
    assert 0 < sum(row["query"].startswith("what") for row in sts) < N, "either text is the query, by their hash"


def test_a_wrong_column_is_named_with_its_set_and_what_is_there(store, tmp_path):
    columns(tmp_path / "gooaq" / "pair" / "train-0.parquet", "gooaq", "question", "antwort")
    message = r"set 'gooaq': pair/train-0.parquet has no column 'answer'; it has question, antwort\. Take files"
    with pytest.raises(InputError, match=message):
        go(store, read_general_pairs, source=str(tmp_path))
    row = {"query": "q", "passages": {"selected": [1], "passage_text": ["x"]}}
    parquet(tmp_path / "msmarco" / "v2.1" / "train.parquet", [row])
    with pytest.raises(InputError, match=r"'msmarco': v2.1/train.parquet has no column 'is_selected'; it has selected"):
        go(store, read_general_pairs, source=str(tmp_path), sets=("msmarco",))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"source": "nowhere"}, "source='nowhere' has no folder of a set; there are squad, paq"),
        ({"sets": ("squat",)}, "no set is called 'squat'; there are squad, paq"),
        ({"most": {"squat": 1}}, "no set is called 'squat'"),
        ({"sets": ("squad", "eli5")}, r"set 'eli5': .*train\*.*hf download sentence-transformers/eli5 --repo-type "
         r"dataset --revision 6e3b20a7a427560845779f217c3ff71493374bc0 --include 'pair/train\*' --local-dir .*/eli5"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_with_the_remedy(store, tmp_path, values, message):
    columns(tmp_path / "squad" / "pair" / "train-0.parquet", "squad", "question", "answer")
    with pytest.raises(InputError, match=message):
        go(store, read_general_pairs, **{"source": str(tmp_path)} | values)


def test_a_set_of_an_intent_that_the_domain_has_not_takes_one_that_it_has(store, files, tmp_path, monkeypatch):
    (tmp_path / "intents.toml").write_text(
        "".join(f'[{n}]\ndefinition = "d"\ninstruction = "i"\nquery = "q"\npositive = "p"\n' for n in ("ask", "nli"))
    )
    monkeypatch.setenv("FOUNDRY_DOMAIN", str(tmp_path))
    settings.cache_clear()
    with pytest.raises(InputError, match=r"set 'squad' is of intent 'qa', and the domain has ask, nli; say which"):
        go(store, read_general_pairs, source=str(files), sets=("squad",))
    go(store, read_general_pairs, source=str(files), sets=("squad",), intents={"qa": "ask"})
    assert {row["intent"] for row in rows(store, "mtp/gd")} == {"ask"}
    settings.cache_clear()


def test_of_a_large_set_a_sample_is_taken_that_other_files_hardly_change(store, tmp_path):
    pairs = [dict(zip(("question", "answer"), texts("squad", i), strict=True)) for i in range(200)]
    path = tmp_path / "squad" / "pair" / "train-0.parquet"
    parquet(path, pairs)
    outcome = go(store, read_general_pairs, source=str(tmp_path), most={"squad": 50})
    before = {row["query"] for row in rows(store, "mtp/gd")}
    assert len(before) == 50 and outcome.counters["not_sampled/gd/squad"] == 150
    parquet(path, [*pairs[10:], {"question": "new?", "answer": "yes"}, pairs[20]])
    go(store, read_general_pairs, source=str(tmp_path), most={"squad": 50})
    after = {row["query"] for row in rows(store, "mtp/gd")}
    assert len(after) == 50 and len(before ^ after) <= 2 * 11


def test_one_query_of_a_set_may_have_several_answers_and_one_answer_several_queries(store, tmp_path):
    given = [{"question": q, "answer": a} for q, a in (("a", "1"), ("a", "2"), ("b", "2"), ("b", "2"))]
    parquet(tmp_path / "squad" / "pair" / "train-0.parquet", given)
    columns(tmp_path / "eli5" / "pair" / "train-0.parquet", "eli5", "question", "answer")
    lines(tmp_path / "faq.jsonl", [{"query": "A ", "positive": "of mine", "intent": "qa"}])
    go(store, read_general_pairs, source=str(tmp_path))
    assert reasons(store, "mtp/gd") == {"duplicate_pair": 1}
    dm = {"query_id": "q", "query": "mine?", "positive": "written", "passage": "source", "passage_id": "p"}
    put(store, PAIRS, [dm | {"intent": "qa", "origin": "dm", "split": "train"}], dataset="mtp/dm")
    go(store, read_pairs, name="faq", source=str(tmp_path / "faq.jsonl"))
    go(store, combine_pairs, own=("faq",))
    assert reasons(store, "mtp/combined") == {"duplicate_query": 1}, "the query of mine is one of a set"
    squad = {(row["query"], row["positive"]): row["positive_id"] for row in rows(store, "mtp/combined")
             if row["origin"] == "gd/squad"}  # fmt: skip
    assert squad.keys() == {("a", "1"), ("a", "2"), ("b", "2")}
    assert squad["a", "2"] == squad["b", "2"] != squad["a", "1"], "a text is one passage of its corpus"


def test_what_is_no_pair_is_a_reject_of_its_set(store, tmp_path):
    plant(tmp_path)
    lines(tmp_path / "nfcorpus" / "qrels" / "train.jsonl", [
        {"query-id": "q1", "corpus-id": "d1", "score": 2}, {"query-id": "q1", "corpus-id": "gone", "score": 1},
        {"query-id": "gone", "corpus-id": "d2", "score": "1.0"}, {"query-id": "q2", "corpus-id": "d2", "score": None},
        "{", {"query-id": "q1", "corpus-id": "d1"},
    ])  # fmt: skip
    parquet(tmp_path / "msmarco" / "v2.1" / "train-00000-of-00007.parquet", [
        {"query": "asked?", "passages": {"is_selected": [1], "passage_text": ["answered"]}},
        {"query": "asked again?", "passages": None},
        {"query": "and again?", "passages": {"is_selected": [1, 0], "passage_text": ["one alone"]}},
    ])  # fmt: skip
    go(store, read_general_pairs, source=str(tmp_path), sets=("nfcorpus", "msmarco"))
    assert len(rows(store, "mtp/gd")) == 2
    assert reasons(store, "mtp/gd") == {"bad_line": 5, "no_positive": 1, "no_query": 1}


def test_bytes_are_the_texts_that_they_are_in_utf8(store, files, tmp_path):
    for path in [path for name in ("msmarco", "squad", "xnli") for path in (files / name).rglob("*.parquet")]:
        parquet(tmp_path / path.relative_to(files), packed(pq.read_table(path).to_pylist()))
    go(store, read_general_pairs, source=str(tmp_path))
    found = rows(store, "mtp/gd")
    go(store, read_general_pairs, source=str(files), sets=("msmarco", "squad", "xnli"))
    assert len(found) == 3 * N and found == rows(store, "mtp/gd")
    no_text = b"caf\xe9"
    parquet(tmp_path / "squad" / "pair" / "train-1.parquet", [{"question": no_text, "answer": b"a"}])
    parquet(tmp_path / "msmarco" / "v2.1" / "train-1.parquet", [
        {"query": b"q", "passages": {"is_selected": [1], "passage_text": [no_text]}}
    ])  # fmt: skip
    go(store, read_general_pairs, source=str(tmp_path))
    assert rows(store, "mtp/gd") == found and reasons(store, "mtp/gd") == {"no_positive": 1, "no_query": 1}


def test_a_pair_that_is_listed_both_ways_is_one_pair():
    sets = [one for one in general_sets().values() if one.either_way]
    texts = [(f"a river rises {n}", f"water stands in the road {n}") for n in range(20)]
    ways = {one._fields(*pair)["query"] == pair[0] for one in sets for pair in texts}
    assert sets and ways == {True, False}
    assert all(one._fields(*pair) == one._fields(*pair[::-1]) for one in sets for pair in texts)


def test_the_order_in_which_sets_are_named_has_no_say(tmp_path, files):
    made = []
    for place, names in (("one", ("squad", "paq")), ("other", ("paq", "squad"))):
        store = LocalStore(tmp_path / place)
        outcome = go(store, read_general_pairs, source=str(files), sets=names)
        made.append((outcome.ref, [row["query_id"] for row in rows(store, "mtp/gd")]))
    assert made[0] == made[1]


def test_nothing_is_kept_of_a_set_that_changed_while_it_was_read(store, tmp_path, monkeypatch):
    def write_meanwhile(pairs):
        parts = list(in_parts(pairs))
        columns(tmp_path / "paq" / "pair" / "train-00000-of-00001.parquet", "paq twice", "query", "answer")
        return iter(parts)

    plant(tmp_path)
    monkeypatch.setattr("pipeline_tasks.synthesis.read_general_pairs.in_parts", write_meanwhile)
    with pytest.raises(InputError, match="set 'paq' changed while it was read: run the step again"):
        go(store, read_general_pairs, source=str(tmp_path), sets=("paq",))
    monkeypatch.undo()
    go(store, read_general_pairs, source=str(tmp_path), sets=("paq",))
    assert {row["query"] for row in rows(store, "mtp/gd")} == {texts("paq twice", i)[0] for i in range(N)}
