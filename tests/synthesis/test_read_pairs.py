"""Pairs of one's own: every row of a file is a pair or a reject that says where it stands."""

from __future__ import annotations

import csv
import gzip
import json
import os
from codecs import BOM_UTF8
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import digest, file_sha256
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PAIRS, PASSAGES
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.synthesis.combine_pairs import combine_pairs
from pipeline_tasks.synthesis.files.pair_files import PairFiles
from pipeline_tasks.synthesis.read_pairs import read_pairs
from pipeline_tasks.training.pretrain import PretrainParams, dev_set, training_rows
from tests.stores import go, put, reasons, rejects, rows
from tests.synthesis.general_files import packed

GUIDES = Path(__file__).parents[3] / "shared" / "data" / "ir" / "disaster_guides"
ROWS = [
    {"query": "where is the shelter?", "positive": "at the school", "intent": "qa"},
    {"query": "Flood warning!", "positive": "leave the valley", "intent": "twitter", "origin": "logs"},
]


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    passages = [("p1", "sandbags help", "train"), ("p2", "smoke rises", "test")]
    put(store, PASSAGES, [{"passage_id": i, "doc_id": f"d{i}", "text": t, "split": s} for i, t, s in passages])
    return store


def jsonl(path: Path, found: list) -> str:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in found) + "\n")
    return str(path)


def test_jsonl_csv_and_parquet_give_the_same_pairs(store, tmp_path):
    full = [{"origin": "", **row} for row in ROWS]
    jsonl(tmp_path / "a.jsonl", ROWS)
    with (tmp_path / "a.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, full[0].keys())
        writer.writeheader()
        writer.writerows(full)
    pq.write_table(pa.Table.from_pylist(full), tmp_path / "a.parquet")
    found = []
    for kind in ("jsonl", "csv", "parquet"):
        go(store, read_pairs, name="faq", source=str(tmp_path / f"a.{kind}"), dev_fraction=0)
        found.append(rows(store, "mtp/own/faq"))
    assert found[0] == found[1] == found[2]
    assert [(r["query"], r["positive"], r["intent"], r["origin"], r["split"]) for r in found[0]] == [
        ("where is the shelter?", "at the school", "qa", "faq", "train"),
        ("Flood warning!", "leave the valley", "twitter", "logs", "train"),
    ]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl"])
def test_a_byte_order_mark_is_no_part_of_the_first_column(store, tmp_path, name):
    row = {"intent": "factcheck", "query": "is it safe?", "positive": "It is."}
    lines = json.dumps(row) if ".jsonl" in name else ",".join(row) + "\n" + ",".join(row.values())
    write = gzip.compress if name.endswith(".gz") else bytes
    (tmp_path / name).write_bytes(write(BOM_UTF8 + lines.encode()))
    go(store, read_pairs, name="faq", source=str(tmp_path / name))
    assert [row["intent"] for row in rows(store, "mtp/own/faq")] == ["factcheck"]


def test_half_of_a_character_is_a_bad_line(store, tmp_path):
    cut = '{"query": "flood map \\ud83d", "positive": "here"}'
    whole = '{"query": "flood map \\ud83d\\ude00", "positive": "here"}'
    go(store, read_pairs, name="faq", source=jsonl(tmp_path / "a.jsonl", [cut, whole]))
    assert [row["query"] for row in rows(store, "mtp/own/faq")] == ["flood map \U0001f600"]
    assert [row["reason"] for row in rejects(store, "mtp/own/faq").values()] == ["bad_line"]


def test_a_column_that_is_named_and_not_there_is_told(store, tmp_path):
    source = jsonl(tmp_path / "a.jsonl", [{"query": "is it safe?", "positive": "It is.", "sort": "factcheck"}])
    with pytest.raises(InputError, match="no row of .*a.jsonl' has a column 'kind'; there are query, positive, sort"):
        go(store, read_pairs, source=source, columns={"intent": "kind"})


def test_what_is_no_pair_is_a_reject_that_names_its_line(store, tmp_path):
    bad = [
        "no json", "[" * 99_999, '["a list"]',
        {"query": " ", "positive": "x"}, {"query": "x"}, {"query": "x" * 99, "positive": "x"},
        {"query": "x", "positive": "y", "intent": "gossip"}, {"query": "x", "passage_id": "p9"}, ROWS[0],
    ]  # fmt: skip
    source = jsonl(tmp_path / "logs.jsonl", [ROWS[0], *bad])
    outcome = go(store, read_pairs, source=source, most_characters=50)
    found = Counter(row["reason"] for row in rejects(store, "mtp/own/faq").values())
    assert found == {
        "bad_line": 3, "no_query": 1, "no_positive": 1, "too_long": 1, "unknown_intent": 1, "unknown_passage": 1,
        "duplicate_pair": 1,
    }  # fmt: skip
    assert {row["detail"].partition(":")[0] for row in rejects(store, "mtp/own/faq").values()} == {
        f"logs.jsonl, line {line}" for line in range(2, 11)
    }
    assert outcome.counters["rows_in"] == 10 and len(rows(store, "mtp/own/faq")) == 1


def test_a_list_of_one_is_its_text_and_what_is_no_text_a_reject(store, tmp_path):
    given = [["At the fairground."], ["At the fairground.", "At the depot."], {"text": "At the depot."}, True, [[]]]
    source = jsonl(tmp_path / "a.jsonl", [{"query": f"where {n}?", "positive": one} for n, one in enumerate(given)])
    go(store, read_pairs, source=source)
    assert [row["positive"] for row in rows(store, "mtp/own/faq")] == ["At the fairground."]
    assert [row["reason"] for row in rejects(store, "mtp/own/faq").values()] == ["bad_line"] * 4


def test_a_pair_about_a_passage_is_on_the_side_that_its_document_is_on(store, tmp_path):
    given = [{"question": "what helps?", "pid": "p1"}, {"question": "what rises?", "answer": "smoke", "pid": "p2"}]
    columns = {"query": "question", "positive": "answer", "passage_id": "pid"}
    go(store, read_pairs, source=jsonl(tmp_path / "a.jsonl", given), columns=columns)
    found = {row["query"]: row for row in rows(store, "mtp/own/faq")}
    first, second = found["what helps?"], found["what rises?"]
    assert (first["positive"], first["passage"], first["doc_id"], first["split"]) == (
        "sandbags help",
        "sandbags help",
        "dp1",
        "train",
    )
    assert (second["positive"], second["passage"], second["split"]) == ("smoke", "smoke rises", "test")


def test_a_positive_that_is_the_passage_which_its_row_names_has_its_id(store, tmp_path):
    answers = {"what helps?": "", "what else helps?": "sandbags help ", "and here?": "sandbags help a little"}
    given = [{"query": query, "positive": answer, "passage_id": "p1"} for query, answer in answers.items()]
    given += [{"query": "of no passage?", "positive": "sandbags help"}]
    go(store, read_pairs, source=jsonl(tmp_path / "a.jsonl", given))
    found = {row["query"]: row["positive_id"] for row in rows(store, "mtp/own/faq")}
    assert (found.pop("what helps?"), found.pop("what else helps?")) == ("p1", "p1")
    assert len({*found.values(), "p1"}) == 3


def test_a_number_may_be_an_id_and_nought_is_one(store, tmp_path):
    put(store, PASSAGES, [{"passage_id": "0", "doc_id": "d", "text": "smoke rises", "split": "test"}])
    source = jsonl(
        tmp_path / "a.jsonl", [{"query": "what rises?", "passage_id": 0}, {"query": "why?", "passage_id": 1}]
    )
    go(store, read_pairs, source=source)
    assert [(r["positive"], r["split"]) for r in rows(store, "mtp/own/faq")] == [("smoke rises", "test")]
    assert [row["reason"] for row in rejects(store, "mtp/own/faq").values()] == ["unknown_passage"]


@pytest.fixture
def joined(store, tmp_path) -> Version:
    """Pairs: with a source passage and a written positive, with a positive alone, with a source alone."""
    dm = {"query_id": "q", "query": "mine?", "positive": "written", "passage": "source", "intent": "qa", "origin": "dm"}
    put(store, PAIRS, [dm | {"split": "train"}], dataset="mtp/dm")
    given = [{"query": "logged?", "positive": "answer"}, {"query": "of p1?", "passage_id": "p1"}]
    go(store, read_pairs, name="faq", source=jsonl(tmp_path / "a.jsonl", given), dev_fraction=0)
    go(store, combine_pairs, own=("faq",))
    return Version.open(store, Ref.parse("mtp/combined"))


@pytest.mark.parametrize(
    ("views", "of_mine"),
    [
        ({}, [("mine?", "source"), ("mine?", "written")]),
        ({"views": ("written",)}, [("mine?", "written")]),
        ({"views": ("source",)}, [("mine?", "source")]),
        ({"views": ("restated", "source")}, [("mine?", "source"), ("written", "source")]),
    ],
)
def test_own_pairs_join_the_others_and_give_a_row_for_each_view_that_there_is(joined, views, of_mine):
    params = PretrainParams(size="22m", device="cpu", **views)
    made = [row for part in training_rows(joined, [], params, Layout("mean", 32)) for row in part.to_pylist()]
    assert [(row["query"], row["positive"], row["source"]) for row in made] == [
        *((*texts, "dm") for texts in of_mine), ("logged?", "answer", "faq"), ("of p1?", "sandbags help", "faq"),
    ]  # fmt: skip


def test_views_in_another_order_are_the_same_training_and_others_are_another():
    chosen = (("source", "written"), ("written", "source"), ("written",))
    default, *others = (PretrainParams(device="cpu", views=views).identity() for views in chosen)
    assert [default == other for other in others] == [True, False]
    assert default == PretrainParams(device="cpu").identity()


def test_a_development_pair_without_a_passage_is_searched_for_by_its_positive(store, tmp_path):
    go(store, read_pairs, source=jsonl(tmp_path / "a.jsonl", ROWS), dev_fraction=0.999)
    (block,) = dev_set(Version.open(store, Ref.parse("mtp/own/faq")), Layout("mean", 32)).blocks()
    assert block["positive"].to_pylist() == ["at the school", "leave the valley"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"source": "nowhere"}, "source='nowhere' has no .jsonl, .csv, .tsv, .parquet file"),
        ({"columns": {"text": "q"}}, "'text' is none of query, positive"),
        ({"columns": {"query": "wrong"}}, "has a column 'wrong'; there are query, positive, intent"),
        ({"most_characters": 1}, "most are refused as too_long, .*: raise most_characters=1, or shorten them"),
        ({"name": "A B"}, "no dataset name"),
    ],
)
def test_files_that_hold_no_pairs_are_named_with_the_remedy(store, tmp_path, values, message):
    with pytest.raises(InputError, match=message):
        go(store, read_pairs, **{"source": jsonl(tmp_path / "a.jsonl", ROWS)} | values)


def test_a_file_that_is_not_what_its_name_says_is_an_error(store, tmp_path):
    (tmp_path / "a.parquet").write_text("no parquet")
    with pytest.raises(InputError, match="a.parquet cannot be read as parquet"):
        go(store, read_pairs, source=str(tmp_path / "a.parquet"))
    (tmp_path / "a.csv").write_bytes("query,positive\nwo?,für alle".encode("latin-1"))
    with pytest.raises(InputError, match=r"a.csv cannot be read as csv \(.*\): write it as UTF-8, or move it away"):
        go(store, read_pairs, source=str(tmp_path / "a.csv"))


@pytest.mark.skipif(not GUIDES.is_dir(), reason="the judged guides are not beside the checkout")
def test_pairs_on_real_guides_keep_their_passages(tmp_path):
    store = LocalStore(tmp_path / "store")
    corpus = [json.loads(line) for line in (GUIDES / "corpus.jsonl").read_text("utf-8").splitlines()]
    put(
        store,
        PASSAGES,
        [
            {"passage_id": row["_id"], "doc_id": row["document"], "text": row["text"], "split": "train"}
            for row in corpus
        ],
    )
    outcome = go(store, read_pairs, name="guides", source=str(GUIDES / "train.jsonl"))
    found = rows(store, "mtp/own/guides")
    assert len(found) + len(rejects(store, "mtp/own/guides")) == outcome.counters["rows_in"] == 1244
    assert len(found) >= 1240 and all(row["passage"] and row["positive"] for row in found)


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.parquet"])
def test_a_damaged_file_is_named(store, tmp_path, name):
    path = tmp_path / name
    if name.endswith(".gz"):
        whole = gzip.compress("".join(json.dumps({"query": f"q{i}?", "positive": str(i)}) for i in range(999)).encode())
        path.write_bytes(whole[:200] + bytes(200) + whole[400:])
    else:
        pq.write_table(pa.Table.from_pylist(ROWS), path)
        whole = path.read_bytes()
        path.write_bytes(whole[:4] + bytes(40) + whole[44:])
    with pytest.raises(InputError, match=f"(?s){name} cannot be read as .*: mend it, or move it away"):
        go(store, read_pairs, name="faq", source=str(path))


def test_a_field_of_any_length_is_one_row_s_fault(store, tmp_path):
    (tmp_path / "a.csv").write_text("query,positive\nwhy?,because\nhow?," + "x" * 200_000 + "\n")
    go(store, read_pairs, name="faq", source=str(tmp_path / "a.csv"))
    assert [row["reason"] for row in rejects(store, "mtp/own/faq").values()] == ["too_long"]


def test_bytes_are_the_texts_that_they_are_in_utf8_and_a_bad_line_where_they_are_none(store, tmp_path):
    image = b"\x89PNG\xff"
    given = [packed({"origin": "", **row, "positive": [row["positive"]], "image": image}) for row in ROWS]
    bad = {"query": b"caf\xe9?", "positive": [b"at noon"]}
    pq.write_table(pa.Table.from_pylist([*given, bad]), tmp_path / "a.parquet")
    go(store, read_pairs, name="faq", source=str(tmp_path / "a.parquet"))
    found = [(row["query"], row["positive"], row["intent"], row["origin"]) for row in rows(store, "mtp/own/faq")]
    assert found == [
        ("where is the shelter?", "at the school", "qa", "faq"),
        ("Flood warning!", "leave the valley", "twitter", "logs"),
    ]
    (reject,) = rejects(store, "mtp/own/faq").values()
    assert (reject["reason"], reject["detail"]) == ("bad_line", "a.parquet, line 3")


def test_files_are_named_as_before_but_for_those_that_are_read_otherwise_now(tmp_path):
    for name, rows_given, read_otherwise in (("texts", ROWS, False), ("bytes", packed(ROWS), True)):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist(rows_given), path)
        assert (PairFiles(str(path)).identity() != digest((path.name, file_sha256(path)))) == read_otherwise


def test_a_number_that_is_none_is_no_text(store, tmp_path):
    none = float("nan")
    given = [{"query": "q?", "positive": none}, {"query": none, "positive": "x"}, ROWS[0] | {"origin": -float("inf")}]
    go(store, read_pairs, source=jsonl(tmp_path / "a.jsonl", given))
    assert [(row["positive"], row["origin"]) for row in rows(store, "mtp/own/faq")] == [("at the school", "faq")]
    assert reasons(store, "mtp/own/faq") == {"no_positive": 1, "no_query": 1}


def test_a_file_whose_name_is_no_utf8_is_refused_by_it(store, tmp_path):
    jsonl(tmp_path / "a.jsonl", ROWS)
    jsonl(Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.jsonl")), ROWS)
    with pytest.raises(InputError, match=r"the name 'caf\\udce9.jsonl' is no UTF-8; rename what it names"):
        go(store, read_pairs, name="faq", source=str(tmp_path))
