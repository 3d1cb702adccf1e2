from __future__ import annotations

import unicodedata
from collections import Counter
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PAIRS, PASSAGES
from pipeline_tasks.synthesis.combine_pairs import combine_pairs
from tests.stores import go, put, rejects, rows


def pair(name: str, query: str, origin: str = "dm", intent: str = "qa") -> dict:
    return {"query_id": name, "query": query, "intent": intent, "origin": origin}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path)
    mine = [pair("b", "Where is  the shelter?"), pair("a", "where is the\tshelter? "), pair("c", "x", intent="sts")]
    put(store, PAIRS, mine, dataset="mtp/dm")
    return store


def kept(store: LocalStore) -> list[str]:
    return [row["query_id"] for row in rows(store, "mtp/combined")]


def test_the_first_of_queries_with_the_same_words_stays(store):
    put(store, PAIRS, [pair("d", "WHERE is the shelter?", "gd"), pair("e", "X", "gd", "nli")], dataset="mtp/gd")
    outcome = go(store, combine_pairs)
    assert kept(store) == ["b", "c", "e"]
    refused = rejects(store, "mtp/combined")
    assert {name: row["reason"] for name, row in refused.items()} == dict.fromkeys("ad", "duplicate_query")
    assert refused["d"]["detail"] == "of b: WHERE is the shelter?"
    assert outcome.counters["pairs_read/dm/qa"] == 2 and outcome.counters["pairs_kept/dm/qa"] == 1
    assert outcome.counters["pairs_kept/gd/nli"] == 1 and "pairs_kept/gd/qa" not in outcome.counters


def test_letters_at_the_ends_of_a_query_are_words_and_blanks_are_none(store):
    asked = ["FEMA Region I", "FEMA Region IV", "FEMA Region", "FEMA Region V", "a \x0b\xa0\ntv", "\x0ba tv\x0c\r"]
    put(store, PAIRS, [pair(f"r{n}", text) for n, text in enumerate(asked)], dataset="mtp/dm")
    go(store, combine_pairs, near=1)
    refused = rejects(store, "mtp/combined")
    assert {name: row["detail"].split(":")[0] for name, row in refused.items()} == {"r5": "of r4"}


def test_a_query_is_the_same_in_any_unicode_form(store):
    words = "où se trouve l’abri le plus proche de l’école élémentaire du vieux marché brûlé"
    forms = [unicodedata.normalize(form, words) for form in ("NFC", "NFD")]
    turned = " ".join(reversed(forms[1].split()))
    asked = [
        pair("a", forms[0]),
        pair("b", forms[1]),
        pair("c", forms[0], intent="sts"),
        pair("d", turned, intent="sts"),
    ]
    put(store, PAIRS, asked, dataset="mtp/dm")
    go(store, combine_pairs)
    found = {name: row["reason"] for name, row in rejects(store, "mtp/combined").items()}
    assert found == {"b": "duplicate_query", "d": "near_query"}


def test_a_pair_that_is_in_two_of_them_is_refused_and_not_lost(store):
    put(store, PAIRS, [pair("b", "Where is  the shelter?"), pair("z", "new?")], dataset="mtp/own/again")
    with pytest.raises(InputError, match="1 pairs are in two of the datasets that are to be combined, b for one"):
        go(store, combine_pairs, own=["again"])


@pytest.mark.parametrize(("origin", "stay"), [("faq", ["q0", "q1", "q2"]), ("extracted/heading", ["q0"])])
def test_a_query_that_somebody_judged_keeps_all_passages_that_answer_it(tmp_path, origin, stay):
    store = LocalStore(tmp_path)
    judged = [pair(f"q{n}", "how deep?", origin) | {"passage_id": f"p{n}"} for n in range(3)]
    put(store, PAIRS, judged, dataset="mtp/gd")
    go(store, combine_pairs)
    assert kept(store) == stay


def test_of_a_query_with_passages_on_two_sides_one_side_stays(tmp_path):
    store = LocalStore(tmp_path)
    sides = ("train", "test", "train")
    judged = [pair(f"q{n}", "how deep?", "own/faq") | {"passage_id": f"p{n}", "split": sides[n]} for n in range(3)]
    put(store, PAIRS, judged, dataset="mtp/gd")
    go(store, combine_pairs)
    assert (kept(store), list(rejects(store, "mtp/combined"))) == (["q0", "q2"], ["q1"])


def test_general_pairs_may_be_missing(store):
    go(store, combine_pairs)
    assert kept(store) == ["b", "c"]


def test_pairs_of_your_own_need_no_others_and_some_there_must_be(tmp_path):
    store = LocalStore(tmp_path)
    with pytest.raises(InputError, match="there are no pairs: run write_pairs, .*, or read_pairs and name them in own"):
        go(store, combine_pairs)
    put(store, PAIRS, [pair("o", "logged?", "faq")], dataset="mtp/own/faq")
    go(store, combine_pairs, own=["faq"])
    assert kept(store) == ["o"]


def test_there_may_be_no_pairs_at_all(store):
    put(store, PAIRS, dataset="mtp/dm")
    go(store, combine_pairs, balance=1, caps={"dm": 1})
    assert kept(store) == []


def test_a_cap_takes_a_sample_that_a_refresh_hardly_changes(store):
    many = [pair(f"g{i:03}", f"question {i}", "gd/one") for i in range(100)]
    few = [pair(f"h{i}", f"other {i}", "gd/two") for i in range(5)]
    put(store, PAIRS, many, few, dataset="mtp/gd")
    go(store, combine_pairs, caps={"gd/one": 40, "gd/two": 40})
    before = set(kept(store))
    assert (len(before), sum(name.startswith("g") for name in before)) == (2 + 40 + 5, 40)
    assert sum(row["reason"] == "over_cap" for row in rejects(store, "mtp/combined").values()) == 60
    put(store, PAIRS, many[:95], few, [pair("i", "new", "gd/one")], dataset="mtp/gd")
    go(store, combine_pairs, caps={"gd/one": 40, "gd/two": 40})
    assert len(before ^ set(kept(store))) <= 2 * 6


def written(intent: str, n: int, split: str = "train") -> list[dict]:
    return [pair(f"{intent}-{split}-{i}", f"{intent} {split} {i}", intent=intent) | {"split": split} for i in range(n)]


def by_intent(store: LocalStore) -> dict[str, int]:
    return Counter(row["intent"] for row in rows(store, "mtp/combined") if row["split"] == "train")


@pytest.mark.parametrize(
    ("values", "qa", "sts"),
    [
        ({}, 90, 20),
        ({"per_intent": 30}, 30, 20),
        ({"balance": 1.5}, 30, 20),
        ({"per_intent": 10, "balance": 2}, 10, 10),
    ],
)
def test_intents_are_levelled_once_all_else_is_refused(store, values, qa, sts):
    again = [row | {"query_id": f"again-{row['query_id']}"} for row in written("sts", 20)]
    put(store, PAIRS, written("qa", 90), written("sts", 20), again, written("qa", 50, "test"), dataset="mtp/dm")
    put(store, PAIRS, [pair("g", "general", "gd/x", "nli") | {"split": "train"}], dataset="mtp/gd")
    go(store, combine_pairs, **values)
    assert by_intent(store) == {"qa": qa, "sts": sts, "nli": 1}, "a set that is rare by design levels nothing"
    assert sum(row["split"] == "test" for row in rows(store, "mtp/combined")) == 50, "what is held out stays"
    refused = Counter(row["reason"] for row in rejects(store, "mtp/combined").values())
    assert refused["over_intent"] == 110 - qa - sts and refused["duplicate_query"] == 20


def test_a_refresh_hardly_changes_which_pairs_of_an_intent_stay(store):
    put(store, PAIRS, written("qa", 90), written("sts", 40), dataset="mtp/dm")
    go(store, combine_pairs, balance=1)
    before = set(kept(store))
    put(store, PAIRS, written("qa", 94)[2:], written("sts", 41), dataset="mtp/dm")
    go(store, combine_pairs, balance=1)
    assert len(before ^ set(kept(store))) <= 2 * 2 + 2 * 4 + 2


def test_queries_in_nearly_the_same_words_are_one_and_those_of_sets_are_left_alone(store):
    words = "which of the three roads to the old mill is closed while the river is high"
    alike = f"{words} today".replace("which of", "of which")
    mine = [pair("b", words), pair("a", alike), pair("c", alike, intent="sts"), pair("d", "which road is closed?")]
    put(store, PAIRS, mine, [pair("e", f"{words} now") | {"split": "test"}], dataset="mtp/dm")
    put(store, PAIRS, [pair("g", words, "gd/x"), pair("h", alike, "gd/x")], dataset="mtp/gd")
    go(store, combine_pairs)
    assert kept(store) == ["b", "c", "d", "e"]
    refused = rejects(store, "mtp/combined")
    assert {name: row["reason"] for name, row in refused.items()} == {
        "a": "near_query", "g": "duplicate_query", "h": "duplicate_query",
    }  # fmt: skip
    assert refused["a"]["detail"] == f"of b: {alike}"
    go(store, combine_pairs, near=1)
    assert kept(store) == ["b", "a", "c", "d", "e"]


def test_how_many_pairs_a_process_holds_changes_nothing(tmp_path):
    words = "which of the three roads to the old mill is closed while the river is high".split()
    turned = [" ".join(words[n:] + words[:n]) for n in range(8)]
    alike = [[pair(f"{name}{n}", q, intent=name) | {"split": "train"} for n, q in enumerate(turned)] for name in "xy"]
    found = []
    for most in (8, 1000):
        store = LocalStore(tmp_path / str(most))
        again = [row | {"query_id": f"again-{row['query_id']}"} for row in written("sts", 9)]
        put(store, PAIRS, *alike, written("sts", 9), written("qa", 31), again, dataset="mtp/dm")
        asked = [pair(f"g{n}", f"{n % 7} what", "gd/x", "nli") for n in range(21)]
        put(store, PAIRS, asked[:9], asked[9:], [pair("h", turned[0].upper(), "gd/y", "x")], dataset="mtp/gd")
        made = go(store, combine_pairs, block_pairs=most, caps={"gd/x": 11}, balance=2)
        counters = {name: n for name, n in made.counters.items() if name.startswith("pairs_") and "/" in name}
        found.append((kept(store), rejects(store, "mtp/combined"), counters))
    assert found[0] == found[1]
    reasons = Counter(row["reason"] for row in found[0][1].values())
    assert reasons == {"duplicate_query": 10, "near_query": 14, "over_cap": 10, "over_intent": 31 - 2 + 9 - 2}


def test_two_versions_of_pairs_are_refused_in_one_input_and_in_two(store):
    refs = [str(put(store, PAIRS, [pair(f"o{n}", f"own {n}", "own")], dataset="mtp/own/a")) for n in range(2)]
    for given in ({"own": refs}, {"own": [refs[0]], "dm": [refs[1]]}):
        with pytest.raises(InputError, match="would keep the rows of mtp/own/a twice"):
            go(store, combine_pairs, given)


@pytest.mark.parametrize("values", [{"balance": 0.5}, {"caps": {"gd/x": -1}}])
def test_what_would_keep_less_than_nothing_is_refused(values):
    with pytest.raises(InputError, match="balance|caps"):
        combine_pairs.parse(values)


def test_a_cap_of_an_origin_that_no_pair_has_is_refused(store):
    caps = {"gd/squad": 5, "dm": 5}
    go(store, combine_pairs, caps=caps)
    put(store, PAIRS, [pair("g", "general", "gd/squad_v2")], dataset="mtp/gd")
    with pytest.raises(
        InputError, match="caps has 'gd/squad', and no pair is of that origin; there are dm, gd/squad_v2"
    ):
        go(store, combine_pairs, caps=caps)
    with pytest.raises(InputError, match="caps has 'gdd/squad_v2'"):
        go(store, combine_pairs, caps={"gdd/squad_v2": 5})


def test_passages_have_no_say_where_no_pairs_are_your_own(store):
    put(store, PASSAGES, [{"passage_id": "p", "doc_id": "d", "split": "train", "text": "t"}])
    assert list(plan(store, combine_pairs, {}, {"passages": ["passages"]}).inputs) == ["dm"]
